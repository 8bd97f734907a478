// What the tests of the product and of messages share: inputs that end at a fault, and LWE-KEM's arithmetic in plain
// integers.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include "test.h"

#define CHECK(condition)                                                                                   \
    ((condition) ? void() : fail_test(std::string(__FILE__ ":") + std::to_string(__LINE__) + ": " #condition))

// What nobody wrote.
constexpr u8 UNTOUCHED = 0xa5;

// Memory of which only what is touched exists.
template <class T> T *sparse(size_t len) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *p = mmap(nullptr, len * sizeof(T), PROT_READ | PROT_WRITE, flags, -1, 0);
    CHECK(p != MAP_FAILED);
    return static_cast<T *>(p);
}

// An input of `len` elements; a read behind its end is a fault.
template <class T> class Fenced {
  public:
    explicit Fenced(size_t len) {
        const size_t page = size_t(sysconf(_SC_PAGESIZE));
        pages = (len * sizeof(T) + page - 1) / page * page + page;
        memory = sparse<uint8_t>(pages);
        uint8_t *end = memory + pages - page;
        CHECK(mprotect(end, page, PROT_NONE) == 0);
        first = reinterpret_cast<T *>(end - len * sizeof(T));
    }
    Fenced(Fenced &&other) : pages(other.pages), memory(other.memory), first(other.first) { other.memory = nullptr; }
    ~Fenced() {
        if (memory) munmap(memory, pages);
    }
    T *data() { return first; }
    T &operator[](size_t i) { return first[i]; }

  private:
    size_t pages;
    uint8_t *memory;
    T *first;
};

// From low to high, both included.
inline int64_t between(Random &random, int64_t low, int64_t high) {
    return low + int64_t(random.next() % u64(high - low + 1));
}

namespace reference {

constexpr int64_t q = 12289;

inline int64_t mod_q(int64_t x) { return (x % q + q) % q; }

// FIPS 203, Algorithm 5 with d = 14: bit by bit.
inline std::vector<uint8_t> byte_encode(const std::vector<int64_t> &values) {
    std::vector<uint8_t> bytes(values.size() * 14 / 8);
    for (size_t i = 0; i < values.size() * 14; i++) {
        bytes[i / 8] |= uint8_t((values[i / 14] >> (i % 14) & 1) << (i % 8));
    }
    return bytes;
}

// The planes of a matrix whose column j begins at values[j * n].
template <class Byte> void split(const std::vector<int64_t> &values, Byte *planes) {
    for (size_t i = 0; i < values.size(); i++) {
        int64_t centred = values[i] - 6144;
        int64_t low = ((centred + 64) & 127) - 64;
        planes[i] = Byte(low);
        planes[values.size() + i] = Byte((centred - low) / 128);
    }
}

}  // namespace reference
