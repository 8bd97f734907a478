//! The cut of a workload against the memory that there is: what is resident, what one round holds, what is refused.

use lwe_mpi::{
    backend::cpu::{Cpu, isa::Isa},
    bench::{
        plan::Plan,
        workload::{Exchange, Workload},
    },
    comm::Comm,
    error::Result,
    ops::{DeviceInfo, MatrixForm, ProductWork},
    params::LweParams,
    schemes::{Kem, Sizes, lwe::LweKem},
};
use proptest::prelude::*;
use zeroize::Zeroizing;

/// Sizes and a memory, and nothing that works.
#[derive(Clone, Copy, Debug)]
struct Paper {
    available_bytes: u64,
    key_bytes: u64,
    /// What a batch takes before its first item.
    batch_bytes: u64,
    item_bytes: u64,
    sizes: Sizes,
}

const NO_WORK: &str = "a plan asks for sizes alone";

impl Kem for Paper {
    type Keys = ();
    type Batch = ();

    fn sizes(&self) -> Sizes {
        self.sizes
    }
    fn device(&self) -> DeviceInfo {
        let available_bytes = self.available_bytes;
        DeviceInfo { name: "paper".into(), units: 1, available_bytes, isa: "none".into() }
    }
    fn product_work(&self) -> ProductWork {
        ProductWork::default()
    }
    fn keys_bytes(&self, count: usize) -> u64 {
        self.key_bytes * count as u64
    }
    fn batch_bytes(&self, items: usize) -> u64 {
        self.batch_bytes + self.item_bytes * items as u64
    }
    fn keys(&self, _: usize) -> Result<()> {
        unreachable!("{NO_WORK}")
    }
    fn batch(&self, _: usize) -> Result<()> {
        unreachable!("{NO_WORK}")
    }
    fn keygen_derand(&self, _: &[u8], _: &mut ()) -> Result<()> {
        unreachable!("{NO_WORK}")
    }
    fn load_ek(&self, _: &[u8], _: &mut ()) -> Result<()> {
        unreachable!("{NO_WORK}")
    }
    fn load_dk(&self, _: &[u8], _: &mut ()) -> Result<()> {
        unreachable!("{NO_WORK}")
    }
    fn ek(&self, _: &()) -> Result<Vec<u8>> {
        unreachable!("{NO_WORK}")
    }
    fn dk(&self, _: &()) -> Result<Zeroizing<Vec<u8>>> {
        unreachable!("{NO_WORK}")
    }
    fn encaps_derand(&self, _: &(), _: &[u8], _: &mut ()) -> Result<()> {
        unreachable!("{NO_WORK}")
    }
    fn load_c(&self, _: &[u8], _: &mut ()) -> Result<()> {
        unreachable!("{NO_WORK}")
    }
    fn decaps(&self, _: &(), _: &mut ()) -> Result<()> {
        unreachable!("{NO_WORK}")
    }
    fn c(&self, _: &(), _: &mut Vec<u8>) -> Result<()> {
        unreachable!("{NO_WORK}")
    }
    fn read_digests(&self, _: &(), _: &mut Vec<u8>) -> Result<()> {
        unreachable!("{NO_WORK}")
    }
    fn read_secrets(&self, _: &(), _: &mut Zeroizing<Vec<u8>>) -> Result<()> {
        unreachable!("{NO_WORK}")
    }
}

/// LWE-KEM's sizes on the CPU, in a memory of another size.
fn lwe(n: usize, form: MatrixForm, available_bytes: u64) -> Paper {
    let cpu = Cpu::new(1, Isa::best(), &[]).unwrap();
    let kem = LweKem::new(&cpu, LweParams::new(n).unwrap(), form).unwrap();
    let item_bytes = kem.batch_bytes(2) - kem.batch_bytes(1);
    Paper {
        available_bytes,
        key_bytes: kem.keys_bytes(1),
        batch_bytes: kem.batch_bytes(1) - item_bytes,
        item_bytes,
        sizes: kem.sizes(),
    }
}

fn workload(keys: usize, encaps_per_key: usize, exchange: Exchange) -> Workload {
    Workload { keys, encaps_per_key, exchange, warmup: 0, repeat: 1, batch: None, seed: [0; 32] }
}

fn fits(kem: &Paper, workload: &Workload) -> bool {
    Plan::fits(kem, &Comm::alone(), workload).unwrap()
}

fn agree(kem: &Paper, workload: &Workload) -> Result<Plan> {
    Plan::agree(kem, &Comm::alone(), workload)
}

/// One matrix of 2.1 GB at a time, whatever the workload.
#[test]
fn the_largest_set_runs_within_3500_megabytes() {
    let kem = lwe(32768, MatrixForm::Stored, 3_500_000_000);
    for (keys, per_key) in [(1, 1), (1, 100), (7, 3)] {
        let plan = agree(&kem, &workload(keys, per_key, Exchange::Ring)).unwrap();
        assert_eq!((plan.keys_per_group, plan.items_per_batch, plan.resident), (1, 1, false));
        let plan = agree(&kem, &workload(keys, per_key, Exchange::None)).unwrap();
        assert_eq!((plan.keys_per_group, plan.resident), (1, keys == 1), "one key takes the slot that there is");
    }
    let small = Paper { available_bytes: 2_000_000_000, ..kem };
    assert!(!fits(&small, &workload(1, 1, Exchange::None)));
    let error = agree(&small, &workload(1, 1, Exchange::None)).unwrap_err();
    assert!(error.to_string().contains("use a smaller n") && error.exit_code() == 3, "{error}");
}

/// No matrix at all.
#[test]
fn the_largest_set_runs_within_700_megabytes_regenerated() {
    let kem = lwe(32768, MatrixForm::Regenerated, 700_000_000);
    for (keys, per_key) in [(1, 1), (1, 100), (7, 3)] {
        for exchange in [Exchange::Ring, Exchange::None] {
            agree(&kem, &workload(keys, per_key, exchange)).unwrap();
        }
    }
}

#[test]
fn the_least_that_fits_is_one_key_and_one_encapsulation() {
    let kem = lwe(1024, MatrixForm::Stored, 0);
    let least = kem.keys_bytes(1) + kem.batch_bytes(1) + 2 * kem.sizes().c as u64;
    let one = workload(1, 1, Exchange::Ring);
    // What the host keeps of a key and an encapsulation is little beside them.
    for (available_bytes, enough) in [(least + least / 50, true), (least, false), (least - 1, false)] {
        assert_eq!(fits(&Paper { available_bytes, ..kem }, &one), enough);
    }
}

/// What `--matrix auto` decides by is what a run is refused by.
#[test]
fn what_fits_is_what_is_agreed() {
    let kem = lwe(1024, MatrixForm::Stored, 0);
    let many = workload(3, 5, Exchange::Ring);
    let mut fitting = (1..200).map(|megabytes| {
        let kem = Paper { available_bytes: 500_000 * megabytes, ..kem };
        assert_eq!(fits(&kem, &many), agree(&kem, &many).is_ok(), "{megabytes}");
        fits(&kem, &many)
    });
    assert!(fitting.by_ref().any(|fits| fits), "some memory is enough");
}

/// Own keys and the slot for the peer's fill at most an eighth of the memory where they stay.
#[test]
fn keys_stay_where_an_eighth_of_the_memory_holds_them() {
    let kem = lwe(4096, MatrixForm::Stored, 0);
    for exchange in [Exchange::Ring, Exchange::None] {
        let keys = 5;
        let plan = agree(&Paper { available_bytes: 1 << 40, ..kem }, &workload(keys, 2, exchange)).unwrap();
        assert!(plan.resident);
        let slot = if exchange == Exchange::Ring { 1 } else { 0 };
        let enough = 8 * kem.keys_bytes(keys + slot);
        for (available_bytes, resident) in [(enough, true), (enough - 1, false)] {
            let plan = agree(&Paper { available_bytes, ..kem }, &workload(keys, 2, exchange)).unwrap();
            assert_eq!((plan.keys_per_group, plan.resident), (1, resident), "{exchange:?}");
        }
    }
}

proptest! {
    /// A plan that is agreed on takes no more than there is, and no more than its targets.
    #[test]
    fn what_is_agreed_fits(
        n in prop::sample::select(vec![32usize, 1024, 4096, 32768]), megabytes in 1u64..20_000, keys in 1usize..50,
        per_key in 1usize..50, batch in prop::option::of(1usize..100), ring: bool,
    ) {
        let exchange = if ring { Exchange::Ring } else { Exchange::None };
        let kem = lwe(n, MatrixForm::Stored, megabytes * 1_000_000);
        let workload = Workload { batch, ..workload(keys, per_key, exchange) };
        if let Ok(plan) = agree(&kem, &workload) {
            prop_assert!(fits(&kem, &workload));
            let slot = if plan.resident && !ring { 0 } else { plan.keys_per_group };
            let on_device = if plan.resident { keys } else { 0 } + slot;
            let batches = plan.batches_per_round * plan.batch_items();
            let messages = 2 * (batches.min(keys * per_key) * kem.sizes().c) as u64;
            let taken = kem.keys_bytes(on_device) + kem.batch_bytes(plan.batch_items()) + messages;
            prop_assert!(taken <= kem.available_bytes, "{plan:?}: {taken}");
            prop_assert!(plan.batches_per_round == 1 || messages <= 2 * (128 << 20), "{plan:?}: {messages}");
            if batch.is_none() && plan.batch_items() > 1 {
                prop_assert!(kem.batch_bytes(plan.batch_items()) <= 64 << 20, "{plan:?}");
            }
        }
    }
}
