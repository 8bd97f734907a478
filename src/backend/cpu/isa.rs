//! The instruction sets that the CPU backend has copies of its inner loops for.

/// An instruction set. The backend runs one only where [`Isa::available`] says that this machine has it.
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
    /// The same with AMX's 8-bit tiles for the matrix product.
    Amx,
}

impl Isa {
    /// All, the plainest first.
    const ALL: [Isa; 5] = [Isa::Portable, Isa::Avx2, Isa::AvxVnni, Isa::Avx512, Isa::Amx];

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
                Isa::Amx => Isa::Avx512.detected() && tiles::usable(),
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
            Isa::Amx => "amx",
        }
    }
}

/// Compiles a function's plain body for each width of vectors and calls the copy of the instruction set that it gets as
/// its first argument: for loops that compilers vectorize well.
macro_rules! vectorized {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block) => {
        $(#[$meta])*
        $vis fn $name(isa: $crate::backend::cpu::isa::Isa, $($arg: $type),*) $(-> $result)? {
            #[inline(always)]
            fn plain($($arg: $type),*) $(-> $result)? $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
            fn avx512($($arg: $type),*) $(-> $result)? {
                plain($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            fn avx2($($arg: $type),*) $(-> $result)? {
                plain($($arg),*)
            }
            use $crate::backend::cpu::isa::Isa;
            match isa {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: an `Isa` is used only where the machine has its instructions.
                Isa::Amx | Isa::Avx512 => unsafe { avx512($($arg),*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                Isa::AvxVnni | Isa::Avx2 => unsafe { avx2($($arg),*) },
                _ => plain($($arg),*),
            }
        }
    };
}
pub(super) use vectorized;

/// AMX's tiles, which the system lends to programs that ask.
#[cfg(target_arch = "x86_64")]
mod tiles {
    use std::sync::OnceLock;

    use crate::machine;

    /// Linux: asks for the use of a component of the extended state, on this and all later threads (arch_prctl(2)).
    const ARCH_REQ_XCOMP_PERM: i64 = 0x1023;
    /// The component that holds the tiles.
    const XFEATURE_XTILEDATA: i64 = 18;

    /// Whether the processor has them and the system lends them to this process; the first call asks it.
    pub(super) fn usable() -> bool {
        static USABLE: OnceLock<bool> = OnceLock::new();
        *USABLE.get_or_init(|| machine::has_amx_int8() && lent())
    }

    #[cfg(target_os = "linux")]
    fn lent() -> bool {
        // SAFETY: this request reads and writes no memory of the process. A system that does not know it answers -1.
        unsafe { nix::libc::syscall(nix::libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
    }

    #[cfg(not(target_os = "linux"))]
    fn lent() -> bool {
        false
    }
}
