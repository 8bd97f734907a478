// The table of kernels: every entry is a kernel that takes these arguments, and every kernel has an entry.
#include <dirent.h>

#include <fstream>
#include <set>

#include "kernels.h"
#include "test.h"

// Declared as defined: another kind of arguments would be another function to the compiler, though not to the linker.
#define DECLARE(name, arguments, threads) extern "C" void name(arguments);
KERNELS(DECLARE)

namespace {

// Names after "void" in lines that begin with `extern "C" KERNEL`, and their arguments.
std::set<std::string> sources() {
    std::set<std::string> out;
    DIR *directory = opendir("../../kernels");
    while (dirent *entry = readdir(directory)) {
        std::string name = entry->d_name, line;
        if (name.size() < 4 || name.substr(name.size() - 4) != ".cpp") continue;
        std::ifstream file("../../kernels/" + name);
        while (std::getline(file, line)) {
            size_t threads = line.find('('), at = line.find("void ");
            if (line.rfind("extern \"C\" KERNEL", 0) != 0 || at == std::string::npos) continue;
            std::string bound = line.substr(threads + 1, line.find(')') - threads - 1);
            line = line.substr(at + 5);
            size_t open = line.find('('), space = line.find(' ', open);
            out.insert(line.substr(0, open) + " " + line.substr(open + 1, space - open - 1) + " " + bound);
        }
    }
    closedir(directory);
    return out;
}

}  // namespace

int main() {
    std::set<std::string> table;
#define ENTRY(name, arguments, threads)            \
    table.insert(#name " " #arguments " " #threads); \
    check(threads % 64 == 0 && threads <= 1024, #name);
    KERNELS(ENTRY)
    std::set<std::string> found = sources();
    for (const std::string &entry : table) check(found.count(entry), "in the table only: " + entry);
    for (const std::string &entry : found) check(table.count(entry), "not in the table: " + entry);
}
