//! A rank by itself: messages to oneself, and the world of one rank without MPI. Messages behave as MPI's large ones
//! do: a message is done, for both ends, once both its sending and its receiving are posted.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use super::{Pending, Transport};
use crate::error::Result;

/// The transport of one rank.
#[derive(Default)]
pub(super) struct Single {
    /// What errors call the rank: 0 unless it is part of a larger world.
    rank: usize,
    /// The MPI library that is there and not used.
    library: Option<String>,
    messages: Rc<RefCell<Messages>>,
}

#[derive(Default)]
struct Messages {
    /// How many sendings and receivings were posted per tag: the k-th of one meets the k-th of the other.
    posted: HashMap<u16, [u64; 2]>,
    open: HashMap<(u16, u64), Message>,
}

/// The buffers of both ends, [`OUT`] and [`IN`], each present from its posting until it is taken back.
#[derive(Default)]
struct Message {
    buffers: [Option<Vec<u8>>; 2],
    /// Since both ends are posted; or the bytes sent and the bytes due, where they differ.
    copied: Option<std::result::Result<(), (usize, usize)>>,
}

const OUT: usize = 0;
const IN: usize = 1;

struct End {
    messages: Rc<RefCell<Messages>>,
    rank: usize,
    key: (u16, u64),
    end: usize,
}

impl Single {
    /// The messages to oneself of one rank of a larger world.
    #[cfg(feature = "mpi")]
    pub(super) fn part_of_world(rank: usize) -> Single {
        Single { rank, ..Single::default() }
    }

    /// A process by itself in a build with MPI.
    #[cfg(feature = "mpi")]
    pub(super) fn lone(library: String) -> Single {
        Single { library: Some(library), ..Single::default() }
    }

    fn post(&self, tag: u16, end: usize, buffer: Vec<u8>) -> Box<dyn Pending> {
        let messages = &mut *self.messages.borrow_mut();
        let count = &mut messages.posted.entry(tag).or_default()[end];
        let key = (tag, *count);
        *count += 1;
        let message = messages.open.entry(key).or_default();
        message.buffers[end] = Some(buffer);
        if let [Some(from), Some(to)] = &mut message.buffers {
            message.copied = Some(if from.len() == to.len() {
                to.copy_from_slice(from);
                Ok(())
            } else {
                Err((from.len(), to.len()))
            });
        }
        Box::new(End { messages: self.messages.clone(), rank: self.rank, key, end })
    }
}

impl Transport for Single {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        1
    }

    fn library(&self) -> String {
        match &self.library {
            Some(library) => format!("{library}; not started: one process without a launcher"),
            None => "none (one process)".into(),
        }
    }

    fn send(&self, _to: usize, tag: u16, bytes: Vec<u8>) -> Result<Box<dyn Pending>> {
        Ok(self.post(tag, OUT, bytes))
    }

    fn receive(&self, _from: usize, tag: u16, buffer: Vec<u8>) -> Result<Box<dyn Pending>> {
        Ok(self.post(tag, IN, buffer))
    }

    fn barrier(&self) -> Result<Box<dyn Pending>> {
        Ok(Box::new(Done))
    }

    fn take_pulse(&self) -> Result<Option<(usize, usize)>> {
        Ok(None)
    }

    fn abort(&self) -> fn(i32) -> ! {
        std::process::exit
    }

    fn finalize(&self) -> Result<()> {
        Ok(())
    }
}

impl Pending for End {
    fn test(&mut self) -> Result<bool> {
        match self.messages.borrow().open[&self.key].copied {
            None => Ok(false),
            // As in MPI, it is the receiver that learns of another length.
            Some(Err((sent, due))) if self.end == IN => Err(super::wrong_length(self.rank, sent, due)),
            Some(_) => Ok(true),
        }
    }

    fn into_buffer(self: Box<Self>) -> Vec<u8> {
        let open = &mut self.messages.borrow_mut().open;
        let buffers = &mut open.get_mut(&self.key).expect("an end keeps its message").buffers;
        let buffer = buffers[self.end].take().expect("an end takes its buffer once");
        if buffers.iter().all(Option::is_none) {
            open.remove(&self.key);
        }
        buffer
    }
}

struct Done;

impl Pending for Done {
    fn test(&mut self) -> Result<bool> {
        Ok(true)
    }

    fn into_buffer(self: Box<Self>) -> Vec<u8> {
        Vec::new()
    }
}
