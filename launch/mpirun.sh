#!/usr/bin/env bash
# lwe-mpi on several machines under mpirun, for Open MPI and for MPICH and its descendants (Hydra). All arguments go to
# lwe-mpi:
#
#   HOSTFILE=hosts launch/mpirun.sh --n 4096 --keys 1024
#
# Settings, by environment:
#   PER=numa         one rank per NUMA node (the default), per socket, or per node (a whole machine)
#   CORES=           cores of each rank; the default is all of its NUMA node, socket or machine
#   HOSTFILE=        the hosts, one a line; needless inside an allocation (Slurm, PBS) and for this machine alone
#   NODES=           how many machines; the default is the host file's number, the allocation's, or 1
#   RANKS_PER_NODE=  how many NUMA nodes or sockets each machine has; the default is this machine's number
#   PROGRAM=         default target/release/lwe-mpi, which every machine must see under the same path
#   MPIRUN=mpirun    the launcher of the MPI that the program is built with
#   MPIRUN_FLAGS=    further flags of it, separated by spaces
#
# Why a rank per NUMA node: the big matrix then lies in the memory beside the cores that read it. A rank's
# `--threads auto` is its share of the cores that it is bound to; the program's table of ranks shows them.
# One rank per GPU, once there is a GPU backend: PER=numa or socket where each has one GPU; otherwise mpirun by hand,
# with --map-by ppr:GPUS:node (Open MPI) or -ppn GPUS (Hydra).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
per=${PER:-numa} cores=${CORES:-} hostfile=${HOSTFILE:-}
program=${PROGRAM:-$root/target/release/lwe-mpi} mpirun=${MPIRUN:-mpirun}

die() {
    printf 'launch/mpirun.sh: %s\n' "$*" >&2
    exit 2
}
[[ $cores =~ ^[0-9]*$ ]] || die "CORES is a number, not '$cores'"
[ -z "$hostfile" ] || [ -r "$hostfile" ] || die "cannot read the host file '$hostfile'"
[ -x "$program" ] || die "no program at $program: cargo build --release --locked, or set PROGRAM"

case $per in
# A NUMA node without cores (memory only) gets no rank.
numa) here=$(cat /sys/devices/system/node/node*/cpulist | grep -c .) ;;
socket) here=$(cat /sys/devices/system/cpu/cpu*/topology/physical_package_id | sort -u | grep -c .) ;;
node) here=1 ;;
*) die "PER is numa, socket or node, not '$per'" ;;
esac
hosts() { sed 's/[#: ].*//' "$1" | sort -u | grep -c .; }
if [ -n "$hostfile" ]; then
    nodes=$(hosts "$hostfile") || die "no host in the host file '$hostfile'"
elif [ -n "${PBS_NODEFILE:-}" ]; then
    nodes=$(hosts "$PBS_NODEFILE")
else
    nodes=${SLURM_JOB_NUM_NODES:-1}
fi
# Open MPI could count by itself, but 4.1 miscounts NUMA nodes.
flags=(-n $((${NODES:-$nodes} * ${RANKS_PER_NODE:-$here})))

version=$("$mpirun" --version 2>&1) ||
    die "$mpirun does not start: load the MPI that the program is built with, or set MPIRUN"
case $version in
*'Open MPI'* | *OpenRTE* | *'Spectrum MPI'*)
    # ppr: processes per resource. PE: cores for each, to which it is bound.
    flags+=(--map-by "ppr:1:$per${cores:+:PE=$cores}")
    if [ -n "$cores" ]; then
        flags+=(--bind-to core)
    elif [ "$per" = node ]; then
        flags+=(--bind-to none)
    else
        flags+=(--bind-to "$per")
    fi
    [ -z "$hostfile" ] || flags+=(--hostfile "$hostfile")
    ;;
*HYDRA* | *'Intel(R) MPI'* | *MPICH* | *MVAPICH*)
    # Hydra binds nothing unless told; -map-by says how far apart the ranks' cores begin.
    flags+=(-ppn "${RANKS_PER_NODE:-$here}")
    if [ -n "$cores" ]; then
        flags+=(-bind-to "core:$cores")
        [ "$per" = node ] || flags+=(-map-by "$per")
    elif [ "$per" != node ]; then
        flags+=(-bind-to "$per" -map-by "$per")
    fi
    [ -z "$hostfile" ] || flags+=(-f "$hostfile")
    ;;
*) die "$mpirun is neither Open MPI's nor Hydra's: ${version%%$'\n'*}" ;;
esac

# shellcheck disable=SC2206  # split on purpose
flags+=(${MPIRUN_FLAGS:-})
printf '+ %s\n' "$mpirun ${flags[*]} $program $*" >&2
exec "$mpirun" "${flags[@]}" "$program" "$@"
