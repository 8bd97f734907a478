// Strings inside buffers, as crate::ops::Rows and RowsMut describe them. Shared with the host: the layout is C's.
#pragma once

#include "platform.h"

// String i begins at start + (i / repeat)·stride and has `len` bytes.
struct View {
    const u8 *start;
    u64 stride;
    u64 len;
    // At least 1.
    u64 repeat;
};

// String i begins at start + i·stride.
struct ViewMut {
    u8 *start;
    u64 stride;
};

DEVICE const u8 *string_at(const View &view, u64 i) { return view.start + i / view.repeat * view.stride; }
DEVICE u8 *string_at(const ViewMut &view, u64 i) { return view.start + i * view.stride; }

// Whether `pointer` is a multiple of `bytes`, a power of two.
DEVICE bool is_aligned(const void *pointer, u32 bytes) { return reinterpret_cast<u64>(pointer) % bytes == 0; }

// This thread's number in the grid and how many threads there are, for loops over tasks.
DEVICE u64 grid_thread(u32 block_threads) { return u64(block_id()) * block_threads + thread_id(); }
DEVICE u64 grid_threads(u32 block_threads) { return u64(grid_blocks()) * block_threads; }
