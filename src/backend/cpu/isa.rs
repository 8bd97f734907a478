//! The instruction sets that the CPU backend has copies of its inner loops for.

/// An instruction set; it exists only where [`Isa::available`] says that this machine has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// What every machine has.
    Portable,
    /// AVX2 and AES-NI.
    Avx2,
    /// AVX2, AES-NI and AVX-VNNI (256-bit `vpdpwssd`).
    AvxVnni,
    /// AVX-512 with BW, VL, VNNI, VBMI, VBMI2 and VAES.
    Avx512,
}

impl Isa {
    /// All, the plainest first.
    const ALL: [Isa; 4] = [Isa::Portable, Isa::Avx2, Isa::AvxVnni, Isa::Avx512];

    /// Whether this machine has it.
    fn detected(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("aes")
                && is_x86_feature_detected!("popcnt");
            match self {
                Isa::Portable => true,
                Isa::Avx2 => avx2,
                Isa::AvxVnni => avx2 && is_x86_feature_detected!("avxvnni"),
                Isa::Avx512 => {
                    avx2 && is_x86_feature_detected!("avx512f")
                        && is_x86_feature_detected!("avx512bw")
                        && is_x86_feature_detected!("avx512vl")
                        && is_x86_feature_detected!("avx512vnni")
                        && is_x86_feature_detected!("avx512vbmi")
                        && is_x86_feature_detected!("avx512vbmi2")
                        && is_x86_feature_detected!("vaes")
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            self == Isa::Portable
        }
    }

    /// Those that this machine has, the plainest first.
    pub fn available() -> impl Iterator<Item = Isa> {
        Isa::ALL.into_iter().filter(|isa| isa.detected())
    }

    /// The best that this machine has.
    ///
    /// # Panics
    /// Never: every machine has the portable one.
    pub fn best() -> Isa {
        Isa::available().last().expect("every machine has the portable one")
    }

    /// Its name in flags and reports.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "avx2",
            Isa::AvxVnni => "avx-vnni",
            Isa::Avx512 => "avx512",
        }
    }
}
