//! Work space that the operations use again and again, so that timed loops allocate nothing: of a thread and of a call.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{
    isa::Isa,
    kernel::{PANEL, SUM_ROWS},
    memory::{Bytes, Secret, Shared, rows_mut},
    streams::Columns,
    team::Team,
};
use crate::{hash::LEAF_BYTES, ops::RowsMut};

/// What the operations run on: instructions, threads, and the work space of each thread and of the call that is running.
pub(super) struct Workspace {
    pub(super) isa: Isa,
    pub(super) team: Team,
    threads: Vec<Mutex<ThreadSpace>>,
    call: Mutex<CallSpace>,
}

/// What one thread works in.
#[derive(Default)]
pub(super) struct ThreadSpace {
    /// Sums of a block of a product, panel after panel.
    pub(super) sums: Secret<[[i32; PANEL]; SUM_ROWS]>,
    /// A·s as far as this thread has summed it, key after key.
    pub(super) key_sums: Secret<i32>,
    /// Panels that are drawn at the same time.
    pub(super) columns: Vec<Box<Columns>>,
    /// A regenerated block of A, or a row of coefficients.
    pub(super) entries: Secret<i16>,
    /// Rows on their way from columns to planes.
    pub(super) rows: Secret<i16>,
}

impl ThreadSpace {
    /// At least `count` sets of columns.
    pub(super) fn columns(&mut self, isa: Isa, count: usize) {
        while self.columns.len() < count {
            self.columns.push(Columns::new(isa));
        }
    }
}

/// What one call works in, shared by its threads.
#[derive(Default)]
pub(super) struct CallSpace {
    /// R in the order of the inner loop, item after item.
    pub(super) packed: Secret<i16>,
    /// What centring takes from each row of the products.
    pub(super) centre_terms: Secret<i32>,
    /// A·s, key after key.
    pub(super) totals: Secret<i32>,
    /// Vectors of coefficients, item after item.
    pub(super) coefficients: Secret<i16>,
    /// Where ciphertexts differ, piece after piece.
    pub(super) differences: Secret<u8>,
    /// Leaf digests, item after item.
    pub(super) leaves: Secret<[u8; LEAF_BYTES]>,
}

impl Workspace {
    pub(super) fn new(isa: Isa, team: Team) -> Self {
        let threads = (0..team.threads()).map(|_| Mutex::default()).collect();
        Workspace { isa, team, threads, call: Mutex::default() }
    }

    /// Calls `work(space of the thread, task)` for every task below `tasks`, on all threads.
    pub(super) fn each(&self, tasks: usize, work: impl Fn(&mut ThreadSpace, usize) + Sync) {
        self.team.run(tasks, |thread, task| {
            // A panic elsewhere leaves nothing half done that a later use would read.
            work(&mut self.threads[thread].lock().unwrap_or_else(PoisonError::into_inner), task);
        });
    }

    /// [`Self::each`] of `count` strings of `len` bytes: `write(space of the thread, i, string i)`.
    pub(super) fn each_row(
        &self,
        count: usize,
        len: usize,
        out: RowsMut<Bytes>,
        write: impl Fn(&mut ThreadSpace, usize, &mut [u8]) + Sync,
    ) {
        let stride = out.stride;
        let out = Shared::new(rows_mut(count, len, out));
        // SAFETY: strings do not overlap, and each is one task's.
        self.each(count, |thread, i| write(thread, i, unsafe { out.range(i * stride..i * stride + len) }));
    }

    /// Makes room in the space of every thread, so that none has to in a task: which thread gets one is chance.
    pub(super) fn reserve(&self, make: impl Fn(&mut ThreadSpace)) {
        self.threads().for_each(|mut thread| make(&mut thread));
    }

    /// The spaces of all threads, one after another: between the parallel parts of an operation.
    pub(super) fn threads(&self) -> impl Iterator<Item = MutexGuard<'_, ThreadSpace>> {
        self.threads.iter().map(|space| space.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The space of the call.
    pub(super) fn call(&self) -> MutexGuard<'_, CallSpace> {
        self.call.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
