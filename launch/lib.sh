# Shared by launch/quickstart and launch/test: what the build needs, and its installation. Sourced, not run.
# shellcheck shell=bash

me=launch/$(basename "$0")
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s: %s\n' "$me" "$*" >&2; }
die() {
    say "$*"
    exit 2
}
have() { command -v "$1" >/dev/null 2>&1; }
heading() { printf '\n==> %s\n' "$*"; }

# Cargo is never installed from here: where a Rust toolchain comes from is the user's choice.
require_cargo() {
    # rustup changes PATH for later shells only.
    have cargo || PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
    local needed found
    needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$root/Cargo.toml")
    found=$(cd "$root" && cargo --version 2>/dev/null | awk '{ print $2 }') || found=
    if [ -z "$found" ] || [ "$(printf '%s\n' "$needed" "$found" | sort -V | head -n 1)" != "$needed" ]; then
        cat >&2 <<END
$me: needs cargo with Rust $needed or newer; found ${found:-none}. Install it and start again:
  rustup, without root (https://rustup.rs):  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh
  or the distribution's package (cargo; on Arch: rust), where it is new enough; on Alpine only that:
  rustup's build scripts there are static and cannot load libclang.
END
        exit 2
    fi
}

# "openmpi" or "mpich" (with its descendants), from what a compiler wrapper or a launcher says of itself.
family() {
    case $1 in
    *'Open MPI'* | *OpenRTE* | *'Spectrum MPI'*) echo openmpi ;;
    *MPICH* | *HYDRA* | *'Intel(R) MPI'* | *MVAPICH*) echo mpich ;;
    esac
}
launcher_family() { family "$("$1" --version 2>&1 || true)"; }
compiler_family() { family "$("${MPICC:-mpicc}" --showme:version 2>&1 || true) $("${MPICC:-mpicc}" -v 2>&1 || true)"; }

# One `#include` through a compiler: a wrapper or a compiler can be there without its headers.
compiles() { printf '#include <%s>\n' "$2" | "$1" -E -x c - >/dev/null 2>&1; }

# The mpi crate asks these two variables before it asks mpicc.
has_mpi_headers() { [ -n "${MPI_PKG_CONFIG:-}${CRAY_MPICH_DIR:-}" ] || compiles "${MPICC:-mpicc}" mpi.h; }

exists() {
    local file
    for file in "$@"; do
        [ ! -e "$file" ] || return 0
    done
    return 1
}

# Looks where the clang-sys crate does. libclang-cpp is another library; and some packages bring libclang without
# clang's own headers (stddef.h), which mpi.h includes.
has_libclang() {
    [ -z "${LIBCLANG_PATH:-}" ] || return 0
    local prefix dirs dir library=no headers=no
    prefix=$("${LLVM_CONFIG_PATH:-llvm-config}" --prefix 2>/dev/null) || prefix=/usr
    IFS=: read -r -a dirs <<<"$prefix/lib:$prefix/lib64:${LD_LIBRARY_PATH:-}"
    for dir in "${dirs[@]}" /Library/Developer/CommandLineTools/usr/lib; do
        ! exists "$dir"/libclang{,-[0-9]*}.{so,dylib}* || library=yes
        ! exists "$dir"/clang/*/include/stddef.h || headers=yes
    done
    ! exists /usr/{,local/}lib*/{,*/,*/*/}libclang{,-[0-9]*}.so* /usr/local/llvm*/lib*/libclang{,-[0-9]*}.so* ||
        library=yes
    ! exists /usr/{,local/}lib*/{,*/,*/*/}clang/*/include/stddef.h /usr/local/llvm*/lib*/clang/*/include/stddef.h ||
        headers=yes
    # With a clang in PATH, bindgen asks it for the headers.
    ! have clang || headers=yes
    [ $library = yes ] && [ $headers = yes ]
}

# Fills `packages` and `reasons` with what is missing, by Debian's names.
packages=()
reasons=()
find_missing() {
    packages=()
    reasons=()
    if ! compiles cc stdio.h; then
        need gcc "the C compiler and linker (cc), which Rust links with and the mpi crate compiles its C part with"
        need libc6-dev "the C library's headers"
    fi
    # What is there of one MPI is completed, never mixed with another.
    local mpi headers launcher
    mpi=$(compiler_family)
    mpi=${mpi:-$(launcher_family "${MPIRUN:-mpirun}")}
    case $mpi in
    mpich) headers=libmpich-dev launcher=mpich ;;
    *) headers=libopenmpi-dev launcher=openmpi-bin ;;
    esac
    has_mpi_headers || need $headers "MPI's headers and library (mpicc, mpi.h), which the mpi crate builds on"
    have "${MPIRUN:-mpirun}" || need $launcher "mpirun, which starts the ranks"
    has_libclang || need libclang-dev "libclang, with which the mpi crate's build (bindgen) reads mpi.h"
}
need() {
    packages+=("$1")
    reasons+=("$2")
}

print_missing() {
    local i
    for i in "${!packages[@]}"; do
        printf '  %-15s %s\n' "${packages[$i]}" "${reasons[$i]}" >&2
    done
}

# The one block for machines on which nothing can be installed from here.
refuse() {
    say "$1 Missing, by Debian's package names:"
    print_missing
    cat >&2 <<'END'
To have everything, install as root:
  Debian, Ubuntu    apt-get install gcc libc6-dev libopenmpi-dev openmpi-bin libclang-dev
  Fedora, RHEL      dnf install gcc openmpi-devel clang-devel
                    then, in a new shell: module load mpi/openmpi-x86_64
  Arch              pacman -S gcc openmpi clang
  openSUSE          zypper install gcc openmpi4-devel clang-devel
                    then: export PATH="/usr/lib64/mpi/gcc/openmpi4/bin:$PATH"
  Alpine            apk add gcc musl-dev openmpi openmpi-dev clang-dev
Without root, on a cluster (names differ by site; see `module avail`):
  module load openmpi llvm
  export LIBCLANG_PATH=DIR    the folder of libclang.so, where the build does not find it by itself
MPICH or another MPI does as well: its mpicc and mpirun must come first in PATH.
END
    exit 2
}

is_debian() {
    have apt-get && have dpkg-query &&
        (. /etc/os-release && [[ " $ID ${ID_LIKE:-} " =~ \ (debian|ubuntu)\  ]]) 2>/dev/null
}

# require_tools yes|no: installs what is missing, or only says it.
require_tools() {
    require_cargo
    find_missing
    [ ${#packages[@]} -gt 0 ] || return 0
    [ "$1" = yes ] || refuse "--no-install was given."
    is_debian || refuse "Packages can be installed from here on Debian and Ubuntu only."
    local sudo=() i
    if [ "$(id -u)" != 0 ]; then
        have sudo || refuse "Packages can be installed as root only, and there is no sudo."
        sudo=(sudo)
    fi
    # A check also fails for want of another package: what is installed is not installed again.
    for i in "${!packages[@]}"; do
        if [ "$(dpkg-query -W -f '${db:Status-Status}' "${packages[$i]}" 2>/dev/null)" = installed ]; then
            unset "packages[$i]" "reasons[$i]"
        fi
    done
    if [ ${#packages[@]} -gt 0 ]; then
        say "installing with apt-get${sudo[*]:+ through sudo}, with what they depend on, these missing packages:"
        print_missing
        # Fresh cloud machines often hold apt's lock for their own updates.
        local apt=(${sudo[@]+"${sudo[@]}"} env DEBIAN_FRONTEND=noninteractive
            apt-get -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0)
        "${apt[@]}" update -qq </dev/null >&2 || say "apt-get update failed; going on with the package lists at hand"
        "${apt[@]}" install -q -y --no-install-recommends "${packages[@]}" </dev/null >&2 || refuse "apt-get failed."
        hash -r
    fi
    find_missing
    [ ${#packages[@]} -eq 0 ] || refuse "apt-get has run, but the build would still not find everything."
}
