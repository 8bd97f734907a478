// AES-256 in both forms: the S-box, FIPS 197's example, random keys, and NIST's CAVP vectors of CTR_DRBG.
#include <fstream>
#include <iterator>
#include <map>

#include "aes.h"
#include "plain.h"
#include "symmetric.h"

using plain::Bytes;

// ---- Kernels around what aes.h offers.

struct CipherArgs {
    const u32 *key;
    const u32 *v;
    u32 *out;
    u64 count;
};

// Blocks V + 1 … V + count, eight a thread.
extern "C" KERNEL(64) void test_sliced(CipherArgs args) {
    SHARED u32 keys[SLICED_KEY_WORDS];
    if (thread_id() == 0) {
        u32 w[8];
        for (u32 i = 0; i < 8; i++) w[i] = args.key[i];
        expand_key(w, [](u32 x) { return sliced_sub_word(x); },
                   [&](u32 round, u32 w0, u32 w1, u32 w2, u32 w3) {
                       slice_round_key(round, w0, w1, w2, w3, keys + 32 * round);
                   });
    }
    sync_block();
    u32 v[4] = {args.v[0], args.v[1], args.v[2], args.v[3]};
    for (u64 at = grid_thread(64) * 8; at < args.count; at += grid_threads(64) * 8) {
        Sliced s;
        for (u32 k = 0; k < 8; k++) {
            u32 block[4];
            counter_block(v, at + 1 + k, block);
            for (u32 c = 0; c < 4; c++) s[c][k] = block[c];
        }
        slice(s);
        sliced_encrypt(s, keys);
        unslice(s);
        for (u32 i = 0; i < 32; i++) {
            if (at + i / 4 < args.count) args.out[4 * at + i] = s[i % 4][i / 4];
        }
    }
}

// The same, one block a thread.
extern "C" KERNEL(64) void test_table(CipherArgs args) {
    SHARED u32 tables[TABLE_WORDS];
    SHARED u32 keys[ROUND_KEY_WORDS];
    fill_table(tables, 64);
    sync_block();
    const u32 *table = own_table(tables);
    u32 w[8];
    for (u32 i = 0; i < 8; i++) w[i] = args.key[i];
    expand_key(w, [=](u32 x) { return table_sub_word(table, x); },
               [=](u32 round, u32 w0, u32 w1, u32 w2, u32 w3) {
                   if (thread_id() == round) *reinterpret_cast<Words4 *>(keys + 4 * round) = {{w0, w1, w2, w3}};
               });
    sync_block();
    u32 v[4] = {args.v[0], args.v[1], args.v[2], args.v[3]};
    for (u64 at = grid_thread(64); at < args.count; at += grid_threads(64)) {
        u32 block[4];
        counter_block(v, at + 1, block);
        table_encrypt(block, table, keys);
        for (u32 c = 0; c < 4; c++) args.out[4 * at + c] = block[c];
    }
}

namespace {

using Kernel = void (*)(CipherArgs);
const std::pair<const char *, Kernel> FORMS[] = {{"sliced", test_sliced}, {"table", test_table}};

Bytes run(Kernel kernel, const u8 *key, const u8 *v, size_t count, u32 grid = 1) {
    Guarded<u32> k(8), counter(4), out(4 * count);
    std::memcpy(k.data(), key, 32);
    std::memcpy(counter.data(), v, 16);
    simt::launch(kernel, CipherArgs{k.data(), counter.data(), out.data(), count}, grid, 64);
    out.verify("AES");
    u8 *bytes = reinterpret_cast<u8 *>(out.data());
    return Bytes(bytes, bytes + 16 * count);
}

void sboxes() {
    for (u32 x = 0; x < 256; x++) {
        check(SBOX[x] == plain::sub(u8(x)), "S-box table");
        u32 word = x | (x ^ 0x5a) << 8 | (255 - x) << 16 | (x * 7 & 255) << 24, expected = 0;
        for (u32 n = 0; n < 4; n++) expected |= u32(plain::sub(u8(word >> 8 * n))) << 8 * n;
        check(sliced_sub_word(word) == expected, "sliced S-box");
    }
}

// FIPS 197, appendix C.3. Its plaintext is the counter after V.
void fips_197() {
    Bytes key(32), text = from_hex("00112233445566778899aabbccddeeff");
    for (u32 i = 0; i < 32; i++) key[i] = u8(i);
    std::string expected = "8ea2b7ca516745bfeafc49904b496089";
    plain::Block block;
    std::memcpy(block.data(), text.data(), 16);
    check(to_hex(plain::Aes(key.data()).encrypt(block).data(), 16) == expected, "plain AES-256");
    text.back()--;
    for (auto &[name, kernel] : FORMS) {
        check(to_hex(run(kernel, key.data(), text.data(), 1).data(), 16) == expected, std::string("FIPS 197, ") + name);
    }
}

// Random keys; counters that carry out of every word.
void counters(Random &random) {
    for (size_t ones = 0; ones <= 16; ones += 4) {
        for (size_t count : {1, 7, 8, 9, 64, 513}) {
            Bytes key = random.bytes(32), v = random.bytes(16);
            for (size_t i = 16 - ones; i < 16; i++) v[i] = 0xff;
            if (ones > 0) v[15] = 0xfc;
            Bytes expected = plain::counter_blocks(key.data(), v.data(), count);
            for (auto &[name, kernel] : FORMS) {
                for (u32 grid : GRIDS) {
                    check(run(kernel, key.data(), v.data(), count, grid) == expected, std::string("counters, ") + name);
                }
            }
        }
    }
}

// ---- NIST's vectors: tests/vectors/ctr_drbg_cavp.json, an array of groups with an array of tests each.

// Strings, words and numbers in order, and the braces of the tests.
std::vector<std::string> tokens(const std::string &json) {
    std::vector<std::string> out;
    for (size_t i = 0; i < json.size();) {
        char c = json[i];
        if (c == '"') {
            size_t end = json.find('"', i + 1);
            out.push_back(json.substr(i + 1, end - i - 1));
            i = end + 1;
        } else if (std::isalnum(static_cast<unsigned char>(c))) {
            size_t end = i;
            while (std::isalnum(static_cast<unsigned char>(json[end]))) end++;
            out.push_back(json.substr(i, end - i));
            i = end;
        } else {
            if (c == '{' || c == '}') out.push_back(std::string(1, c));
            i++;
        }
    }
    return out;
}

using Fields = std::map<std::string, std::string>;

Bytes output(const plain::CounterBlocks &blocks, const Fields &group, const Fields &test) {
    auto field = [&](const char *name) {
        auto at = test.find(name);
        return at == test.end() ? Bytes() : from_hex(at->second);
    };
    plain::CtrDrbg drbg{blocks};
    drbg.seed(field("Entropy"), field("PersonalisationString"));
    if (test.count("ReseedEntropy")) drbg.seed(field("ReseedEntropy"), field("ReseedAdditionalInput"));
    Bytes out;
    for (std::string letter : {"A", "B"}) {
        Bytes additional = field(("AdditionalInput" + letter).c_str());
        if (group.at("prediction_resistance") == "true") {
            drbg.seed(field(("EntropyPredictionResistance" + letter).c_str()), additional);
            additional.clear();
        }
        out = drbg.generate(std::stoul(group.at("output_bits")) / 8, additional);
    }
    return out;
}

void cavp() {
    std::ifstream file("../vectors/ctr_drbg_cavp.json");
    std::string json((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    Fields group, test;
    u32 depth = 0, done = 0;
    std::string key;
    for (const std::string &token : tokens(json)) {
        if (token == "{") {
            (++depth == 1 ? group : test).clear();
        } else if (token == "}") {
            if (depth-- == 2 && group["cipher"] == "AES-256" && group["df"] == "false") {
                Bytes expected = from_hex(test.at("Output"));
                check(output(plain::counter_blocks, group, test) == expected, "CAVP, plain");
                for (auto &[name, kernel] : FORMS) {
                    auto blocks = [kernel = kernel](const u8 *key, const u8 *v, size_t count) {
                        return run(kernel, key, v, count);
                    };
                    check(output(blocks, group, test) == expected, std::string("CAVP, ") + name);
                }
                done++;
            }
        } else if (token == "tests") {
            key.clear();
        } else if (key.empty()) {
            key = token;
        } else {
            (depth == 1 ? group : test)[key] = token;
            key.clear();
        }
    }
    check(done >= 720, "CAVP: only " + std::to_string(done) + " tests found");
}

}  // namespace

int main(int argc, char **argv) {
    set_order(argc, argv);
    Random random{2};
    sboxes();
    fips_197();
    counters(random);
    cavp();
}
