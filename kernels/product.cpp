// R * A on matrix units, and A * s: both as sums of products of signed bytes, finished modulo q.
//
// Secret: r, s, e, e1, their sums and what is stored of them on the way. They are only multiplied, added, reduced and
// moved; addresses and branches depend on sizes and task numbers alone.

#include "product.h"
#include "codec.h"

namespace {

constexpr u32 THREADS = PRODUCT_THREADS;
constexpr u32 WAVES = THREADS / WAVE;

// A block's tile: all rows of an item, 64 columns of the matrix in both planes, and so much of k at a time as two
// stages of static shared memory hold, or as the registers hold that keep the next stage where copies do not overlap.
constexpr u32 ROWS = MESSAGE_BITS;
constexpr u32 COLUMNS = 64;
constexpr u32 DEPTH = ASYNC_COPIES ? 64 : 32;
constexpr u32 STAGES = 2;
// A wave's part of it.
constexpr u32 WAVE_ROWS = 64;
constexpr u32 WAVE_COLUMNS = ROWS * COLUMNS / WAVE_ROWS / WAVES;
constexpr u32 TILES_DOWN = WAVE_ROWS / 16;
constexpr u32 TILES_ACROSS = WAVE_COLUMNS / 16;

// A stage in shared memory: the first 16 bytes of k of every line, then the next 16 of every line, and so on, so that
// eight lines' pieces are 128 contiguous bytes and no two lanes meet in a bank. R's rows, then low and high columns.
constexpr u32 PIECE = 16;
constexpr u32 PIECES = DEPTH / PIECE;
constexpr u32 LINES_A = 2 * COLUMNS;
constexpr u32 STAGE_BYTES = (ROWS + LINES_A) * DEPTH;
// A thread copies the same piece of every 256 / PIECES-th line.
constexpr u32 LINES = THREADS / PIECES;
constexpr u32 COPIES_R = ROWS / LINES;
constexpr u32 COPIES_A = LINES_A / LINES;

// The epilogue takes a part of the rows at a time: sums as 16-bit values (padded against bank conflicts), then encoded.
constexpr u32 PART_ROWS = 128;
constexpr u32 VALUE_STRIDE = COLUMNS + 8;
constexpr u32 VALUE_BYTES = PART_ROWS * VALUE_STRIDE * 2;
constexpr u32 GROUPS = COLUMNS / 4;
constexpr u32 ROW_BYTES = GROUPS * GROUP_BYTES;
constexpr u32 EPILOGUE_BYTES = VALUE_BYTES + PART_ROWS * ROW_BYTES;
constexpr u32 SHARED_BYTES = STAGES * STAGE_BYTES > EPILOGUE_BYTES ? STAGES * STAGE_BYTES : EPILOGUE_BYTES;
static_assert(SHARED_BYTES <= 48 * 1024, "static shared memory");
static_assert(WAVES * WAVE_ROWS * WAVE_COLUMNS == ROWS * COLUMNS && LINES_A % LINES == 0, "shape");

// Items that run together, so that a block of columns comes from memory once for all of them.
constexpr u64 GROUP_ITEMS = 8;

// One task: an item, the first of its columns and its part of k.
struct Task {
    u64 matrix, item, column, split, first_k, end_k;
};

// How tasks are numbered: matrix, then group of items, block of columns, split, item of the group.
struct Tasks {
    u64 group, groups, blocks, matrices, total;
};

DEVICE u64 smaller(u64 a, u64 b) { return a < b ? a : b; }
DEVICE u64 ceil_div(u64 a, u64 b) { return (a + b - 1) / b; }

DEVICE Tasks number_tasks(const ProductArgs &args) {
    Tasks tasks;
    tasks.matrices = ceil_div(args.count, args.per_matrix);
    u64 per_matrix = smaller(args.per_matrix, args.count);
    tasks.group = smaller(per_matrix, GROUP_ITEMS);
    tasks.groups = ceil_div(per_matrix, tasks.group);
    tasks.blocks = ceil_div(args.n, COLUMNS);
    tasks.total = tasks.matrices * tasks.groups * tasks.blocks * args.splits * tasks.group;
    return tasks;
}

// Task `number`; false where a last group has no such item.
DEVICE bool find_task(const ProductArgs &args, const Tasks &tasks, u64 number, Task &task) {
    u64 in_group = number % tasks.group;
    number /= tasks.group;
    task.split = number % args.splits;
    number /= args.splits;
    task.column = number % tasks.blocks * COLUMNS;
    number /= tasks.blocks;
    u64 in_matrix = number % tasks.groups * tasks.group + in_group;
    task.matrix = number / tasks.groups;
    task.item = task.matrix * args.per_matrix + in_matrix;
    task.first_k = args.n / 32 * task.split / args.splits * 32;
    task.end_k = args.n / 32 * (task.split + 1) / args.splits * 32;
    return in_matrix < args.per_matrix && task.item < args.count;
}

// Where this thread's copies come from, at the next stage, and go to in a stage.
struct Copies {
    const i8 *r;
    u32 r_step;
    const i8 *a[COPIES_A];
    u32 to_r, to_a;
    // How much of k is left, from this thread's piece on.
    i32 left;
};

DEVICE Copies begin_copies(const ProductArgs &args, const Task &task) {
    Copies copies;
    // Eight threads take a piece of eight lines, the next eight the next piece.
    const u32 line = thread_id() / (8 * PIECES) * 8 + thread_id() % 8;
    const u32 piece = thread_id() / 8 % PIECES;
    const u64 k = task.first_k + piece * PIECE;
    copies.left = i32(task.end_k) - i32(k);
    copies.r = args.r + (task.item * ROWS + line) * args.n + k;
    copies.r_step = LINES * u32(args.n);
    copies.to_r = (piece * ROWS + line) * PIECE;
    copies.to_a = ROWS * DEPTH + (piece * LINES_A + line) * PIECE;
    const i8 *matrix = args.matrices + task.matrix * 2 * args.n * args.n;
    UNROLL
    for (u32 i = 0; i < COPIES_A; i++) {
        const u32 plane = (line + i * LINES) / COLUMNS, at = (line + i * LINES) % COLUMNS;
        // Columns beyond the matrix repeat the last one; nobody reads their sums.
        const u64 column = smaller(task.column + at, args.n - 1);
        copies.a[i] = matrix + plane * (args.n * args.n) + column * args.n + k;
    }
    return copies;
}

// Begins this thread's copies of the next stage. Beyond the task's part of k, R is zero and the matrix is whatever lies
// there.
[[maybe_unused]] DEVICE void begin_stage(Copies &copies, i8 *stage) {
    if (copies.left > 0) {
        UNROLL
        for (u32 i = 0; i < COPIES_R; i++) {
            copy_async(stage + copies.to_r + i * LINES * PIECE, copies.r + u64(i) * copies.r_step);
        }
        UNROLL
        for (u32 i = 0; i < COPIES_A; i++) {
            copy_async(stage + copies.to_a + i * LINES * PIECE, copies.a[i]);
            copies.a[i] += DEPTH;
        }
    } else {
        UNROLL
        for (u32 i = 0; i < COPIES_R; i++) {
            *reinterpret_cast<Words4 *>(stage + copies.to_r + i * LINES * PIECE) = {{0, 0, 0, 0}};
        }
    }
    copies.r += DEPTH;
    copies.left -= i32(DEPTH);
}

// The same copies, by way of registers; here stages end with the task's part of k.
struct Fetched {
    Words4 r[COPIES_R], a[COPIES_A];
};

[[maybe_unused]] DEVICE Fetched fetch_stage(Copies &copies) {
    static_assert(ASYNC_COPIES || DEPTH == 32, "parts of k are multiples of 32");
    Fetched fetched;
    UNROLL
    for (u32 i = 0; i < COPIES_R; i++) {
        fetched.r[i] = *reinterpret_cast<const Words4 *>(copies.r + u64(i) * copies.r_step);
    }
    copies.r += DEPTH;
    UNROLL
    for (u32 i = 0; i < COPIES_A; i++) {
        fetched.a[i] = *reinterpret_cast<const Words4 *>(copies.a[i]);
        copies.a[i] += DEPTH;
    }
    return fetched;
}

[[maybe_unused]] DEVICE void put_stage(const Copies &copies, const Fetched &fetched, i8 *stage) {
    UNROLL
    for (u32 i = 0; i < COPIES_R; i++) {
        *reinterpret_cast<Words4 *>(stage + copies.to_r + i * LINES * PIECE) = fetched.r[i];
    }
    UNROLL
    for (u32 i = 0; i < COPIES_A; i++) {
        *reinterpret_cast<Words4 *>(stage + copies.to_a + i * LINES * PIECE) = fetched.a[i];
    }
}

// Sums of a wave: low and high plane.
struct Sums {
    Tile16x16 tile[2][TILES_DOWN][TILES_ACROSS];
};

DEVICE u32 wave_row() { return wave_id() % (ROWS / WAVE_ROWS) * WAVE_ROWS; }
DEVICE u32 wave_column() { return wave_id() / (ROWS / WAVE_ROWS) * WAVE_COLUMNS; }

DEVICE void multiply_stage(Sums &sums, const i8 *stage) {
    UNROLL
    for (u32 k = 0; k < PIECES; k += 2) {
        const i8 *rows = stage + (k * ROWS + wave_row()) * PIECE;
        const i8 *columns = stage + ROWS * DEPTH + (k * LINES_A + wave_column()) * PIECE;
        FragmentA a[TILES_DOWN];
        UNROLL
        for (u32 i = 0; i < TILES_DOWN; i++) a[i] = load_a(rows + 16 * i * PIECE, PIECE, ROWS * PIECE);
        UNROLL
        for (u32 plane = 0; plane < 2; plane++) {
            UNROLL
            for (u32 j = 0; j < TILES_ACROSS; j++) {
                FragmentB b = load_b(columns + (plane * COLUMNS + 16 * j) * PIECE, PIECE, LINES_A * PIECE);
                UNROLL
                for (u32 i = 0; i < TILES_DOWN; i++) mma_16x16x32_s8(sums.tile[plane][i][j], a[i], b);
            }
        }
    }
}

// The sums over a task's part of k.
DEVICE void multiply_task(const ProductArgs &args, const Task &task, i8 *shared, Sums &sums) {
    UNROLL
    for (u32 plane = 0; plane < 2; plane++) {
        UNROLL
        for (u32 i = 0; i < TILES_DOWN; i++) {
            UNROLL
            for (u32 j = 0; j < TILES_ACROSS; j++) clear(sums.tile[plane][i][j]);
        }
    }
    Copies copies = begin_copies(args, task);
    const u32 steps = u32(ceil_div(task.end_k - task.first_k, DEPTH));
    if constexpr (ASYNC_COPIES) {
        begin_stage(copies, shared);
        commit_async();
        for (u32 step = 0; step < steps; step++) {
            wait_async<0>();
            // This stage is there for all, and all are done with the other.
            sync_block();
            if (step + 1 < steps) begin_stage(copies, shared + (step + 1) % STAGES * STAGE_BYTES);
            commit_async();
            multiply_stage(sums, shared + step % STAGES * STAGE_BYTES);
        }
        wait_async<0>();
    } else {
        Fetched next = fetch_stage(copies);
        put_stage(copies, next, shared);
        for (u32 step = 0; step < steps; step++) {
            sync_block();
            const bool more = step + 1 < steps;
            if (more) next = fetch_stage(copies);
            multiply_stage(sums, shared + step % STAGES * STAGE_BYTES);
            // All were done with this stage before the last barrier.
            if (more) put_stage(copies, next, shared + (step + 1) % STAGES * STAGE_BYTES);
        }
    }
    sync_block();
}

// A wave's sums mod q as 16-bit values.
DEVICE void put_values(const Sums &sums, u16 *values) {
    UNROLL
    for (u32 i = 0; i < TILES_DOWN; i++) {
        UNROLL
        for (u32 j = 0; j < TILES_ACROSS; j++) {
            const Tile16x16 &low = sums.tile[0][i][j], &high = sums.tile[1][i][j];
            UNROLL
            for (u32 x = 0; x < 256 / WAVE; x++) {
                u32 row = wave_row() % PART_ROWS + 16 * i + tile_row(x);
                u32 column = wave_column() + 16 * j + tile_column(x);
                values[row * VALUE_STRIDE + column] = u16(combine(low.v[x], high.v[x]));
            }
        }
    }
}

// Four neighbouring 16-bit values.
struct alignas(8) Values4 {
    u16 x[4];
};

DEVICE u64 finish_group(Values4 values, i32 centre_term, u32 e) {
    i32 x[4];
    UNROLL
    for (u32 i = 0; i < 4; i++) x[i] = reduce(values.x[i] + centre_term + signed_byte(e, i));
    return pack4(x[0], x[1], x[2], x[3]);
}

DEVICE void finish_task(const ProductArgs &args, const Task &task, i8 *shared, const Sums &sums) {
    u16 *values = reinterpret_cast<u16 *>(shared);
    u8 *encoded = reinterpret_cast<u8 *>(shared + VALUE_BYTES);
    const u32 groups = u32(smaller(COLUMNS, args.n - task.column) / 4);
    for (u32 part = 0; part < ROWS / PART_ROWS; part++) {
        if (wave_row() / PART_ROWS == part) put_values(sums, values);
        sync_block();
        const u64 first_row = task.item * ROWS + part * PART_ROWS;
        for (u32 i = thread_id(); i < PART_ROWS * GROUPS; i += THREADS) {
            u32 row = i / GROUPS, group = i % GROUPS;
            if (group >= groups) continue;
            Values4 x = *reinterpret_cast<const Values4 *>(values + row * VALUE_STRIDE + 4 * group);
            u64 column = task.column + 4 * group;
            if (args.splits > 1) {
                u64 line = (first_row + row) * args.splits + task.split;
                *reinterpret_cast<Values4 *>(args.partial + line * args.n + column) = x;
            } else {
                u32 e = *reinterpret_cast<const u32 *>(args.e1 + (first_row + row) * args.n + column);
                u64 packed = finish_group(x, args.centre_terms[first_row + row], e);
                store_group(encoded + row * ROW_BYTES + group * GROUP_BYTES, packed);
            }
        }
        sync_block();
        if (args.splits > 1) continue;
        u8 *out = string_at(args.out, task.item) + encoded_bytes(task.column);
        out += part * PART_ROWS * encoded_bytes(args.n);
        // Threads of a row: 28 words where it is whole.
        const u32 width = groups * GROUP_BYTES;
        const u32 unit = is_aligned(out, 4) ? 4 : 1;
        const u32 units = width / unit;
        for (u32 i = thread_id(); i < PART_ROWS * units; i += THREADS) {
            u32 row = i / units, at = i % units * unit;
            const u8 *from = encoded + row * ROW_BYTES + at;
            u8 *to = out + row * encoded_bytes(args.n) + at;
            if (unit == 4) *reinterpret_cast<u32 *>(to) = *reinterpret_cast<const u32 *>(from);
            else *to = *from;
        }
        // The next part's values are put where nobody reads, its encodings behind a barrier: no barrier here.
    }
    sync_block();
}

}  // namespace

// The centre's terms of rows of small coefficients. Bound: n bytes read a row.
extern "C" KERNEL(PRODUCT_THREADS) void centre_terms(CentreTermsArgs args) {
    const u64 first = u64(block_id()) * WAVES + wave_id();
    for (u64 row = first; row < args.rows; row += u64(grid_blocks()) * WAVES) {
        const Words4 *from = reinterpret_cast<const Words4 *>(args.small + row * args.n);
        i32 sum = 0;
        for (u32 i = lane_id(); i < u32(args.n / 16); i += WAVE) {
            Words4 words = from[i];
            UNROLL
            for (u32 j = 0; j < 4; j++) sum = dot4(words.w[j], 0x01010101, sum);
        }
        for (u32 mask = WAVE / 2; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
        if (lane_id() == 0) args.terms[row] = centre_term(sum);
    }
}

// R * A, 256 rows an item. Bound, an item: 512 n^2 multiplications of bytes with addition on matrix units (1024 n^2
// operations); read from memory 2 n^2 bytes of the matrix for each 8 items, 512 n of r and e1; written 448 n. From the
// second cache n / 64 blocks an item read 384 n bytes each, 6 n^2 in all: 85 multiplications a byte. More would need
// larger tiles, and their sums already fill half of the registers.
extern "C" KERNEL_IN_PAIRS(PRODUCT_THREADS) void product(ProductArgs args) {
    SHARED i8 shared[SHARED_BYTES];
    const Tasks tasks = number_tasks(args);
    for (u64 number = block_id(); number < tasks.total; number += grid_blocks()) {
        Task task;
        if (!find_task(args, tasks, number, task)) continue;
        Sums sums;
        multiply_task(args, task, shared, sums);
        finish_task(args, task, shared, sums);
    }
}

namespace {

// Columns of a task of finish_rows, four a thread; the threads' other dimension is over splits, so that the loads of
// many splits are under way together.
constexpr u32 FINISH_COLUMNS = 256;
constexpr u32 FINISH_THREADS = FINISH_COLUMNS / 4;
constexpr u32 SPLIT_THREADS = THREADS / FINISH_THREADS;

}  // namespace

// Adds partial sums, the centre's term and e, and encodes. Bound: 2 * splits + 2.75 bytes a coefficient.
extern "C" KERNEL(PRODUCT_THREADS) void finish_rows(FinishRowsArgs args) {
    SHARED i32 sums[SPLIT_THREADS][FINISH_COLUMNS];
    SHARED u8 encoded[FINISH_THREADS * GROUP_BYTES];
    const u64 segments = ceil_div(args.n, FINISH_COLUMNS);
    const u32 x = thread_id() % FINISH_THREADS, y = thread_id() / FINISH_THREADS;
    for (u64 task = block_id(); task < args.rows * segments; task += grid_blocks()) {
        const u64 row = task / segments, first = task % segments * FINISH_COLUMNS;
        const u64 column = first + 4 * x;
        if (column < args.n) {
            // At most 2^17 values below q.
            i32 sum[4] = {0, 0, 0, 0};
            const u16 *partial = args.partial + row * args.splits * args.n + column;
            for (u64 split = y; split < args.splits; split += SPLIT_THREADS) {
                const Values4 values = *reinterpret_cast<const Values4 *>(partial + split * args.n);
                UNROLL
                for (u32 i = 0; i < 4; i++) sum[i] += values.x[i];
            }
            UNROLL
            for (u32 i = 0; i < 4; i++) sums[y][4 * x + i] = sum[i];
        }
        sync_block();
        if (y == 0 && column < args.n) {
            Values4 values;
            UNROLL
            for (u32 i = 0; i < 4; i++) {
                i32 sum = 0;
                UNROLL
                for (u32 j = 0; j < SPLIT_THREADS; j++) sum += sums[j][4 * x + i];
                values.x[i] = u16(reduce(sum));
            }
            const u32 e = *reinterpret_cast<const u32 *>(args.e + row * args.n + column);
            store_group(encoded + x * GROUP_BYTES, finish_group(values, args.centre_terms[row], e));
        }
        sync_block();
        const u64 item = row / args.rows_per_item, j = row % args.rows_per_item;
        u8 *out = string_at(args.out, item) + j * encoded_bytes(args.n) + encoded_bytes(first);
        copy_out(out, encoded, u32(encoded_bytes(smaller(FINISH_COLUMNS, args.n - first))), THREADS);
        // No barrier: nobody writes `encoded` before all are at the next one.
    }
}

namespace {

// Rows of A that a task of matrix_vector takes, 16 a thread; the threads' other dimension is over columns.
constexpr u32 VECTOR_ROWS = 512;
constexpr u32 ROW_THREADS = VECTOR_ROWS / 16;
constexpr u32 COLUMN_THREADS = THREADS / ROW_THREADS;

}  // namespace

// A * s without the centre's term. Bound, a matrix: 2 n^2 bytes read; as many multiplications.
extern "C" KERNEL(PRODUCT_THREADS) void matrix_vector(MatrixVectorArgs args) {
    SHARED i32 sums[COLUMN_THREADS][VECTOR_ROWS];
    const u64 splits = ceil_div(args.n, VECTOR_COLUMNS), blocks = ceil_div(args.n, VECTOR_ROWS);
    const u32 x = thread_id() % ROW_THREADS, y = thread_id() / ROW_THREADS;
    for (u64 task = block_id(); task < args.count * splits * blocks; task += grid_blocks()) {
        const u64 first_row = task % blocks * VECTOR_ROWS, split = task / blocks % splits;
        const u64 matrix = task / (blocks * splits);
        const u64 row = first_row + 16 * x;
        if (row < args.n) {
            // At most 16 columns: no sum reaches 16 * 128 * 64 in magnitude.
            i32 low[16], high[16];
            UNROLL
            for (u32 i = 0; i < 16; i++) low[i] = high[i] = 0;
            const u64 end = smaller(args.n, (split + 1) * VECTOR_COLUMNS);
            const i8 *entries = args.matrices + matrix * 2 * args.n * args.n + row;
            for (u64 column = split * VECTOR_COLUMNS + y; column < end; column += COLUMN_THREADS) {
                const i32 s = args.s[matrix * args.n + column];
                const i8 *from = entries + column * args.n;
                const Words4 lows = *reinterpret_cast<const Words4 *>(from);
                const Words4 highs = *reinterpret_cast<const Words4 *>(from + args.n * args.n);
                UNROLL
                for (u32 i = 0; i < 16; i++) {
                    low[i] += s * signed_byte(lows.w[i / 4], i % 4);
                    high[i] += s * signed_byte(highs.w[i / 4], i % 4);
                }
            }
            UNROLL
            for (u32 i = 0; i < 16; i++) sums[y][16 * x + i] = 128 * high[i] + low[i];
        }
        sync_block();
        for (u32 i = thread_id(); i < VECTOR_ROWS && first_row + i < args.n; i += THREADS) {
            // 128 products of at most 128 * 6144 in magnitude.
            i32 sum = 0;
            UNROLL
            for (u32 j = 0; j < COLUMN_THREADS; j++) sum += sums[j][i];
            args.partial[(matrix * splits + split) * args.n + first_row + i] = u16(reduce(sum));
        }
        sync_block();
    }
}
