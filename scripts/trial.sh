#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Disturbs trainings by several processes and checks how they end: each must end within its limit, with a message that names the
# rank or the event, and resume on 3 and on 2 processes with the weights of an uninterrupted training, bit for bit. "divisions"
# disturbs none: it compares divided batches with undivided ones. Prints a line a run and counts. Exit status 1 if a run failed.
# Needs Open MPI; "network" needs root, iproute2 and network namespaces, and "slurm" needs root and the packages slurmctld, slurmd
# and munge. These are trials and no tests: they take an hour of two cores.
# Usage: scripts/trial.sh [--runs 100] [--seed 1] [--program build/bin/sluice] [--shard] [divisions|kills|faults|network|slurm]...
#        scripts/trial.sh interface [--loads 1000] [SPEC...]   compares the command line, C and Python (trial-interface.sh)
#   --runs     trainings that lose a process, half of them during a checkpoint
#   --seed     of the moments and ranks
#   --program  another build
#   --shard    trainings with a sharded state of the optimizer
set -euo pipefail
. "$(dirname "$0")/common.sh"

if [[ ${1:-} == interface ]]; then
  exec "$root/scripts/trial-interface.sh" "${@:2}"
fi
arguments=()
program=$build/bin/sluice
while (($#)); do
  case $1 in
    --runs | --seed)
      [[ ${2:-} =~ ^[0-9]+$ ]] || die "$1: expected an integer, found '${2:-}'"
      arguments+=("$1" "$2")
      shift 2
      ;;
    --program)
      [[ -x ${2:-} ]] || die "--program: expected a program, found '${2:-}'"
      program=$(realpath "$2")
      shift 2
      ;;
    --shard | divisions | kills | faults | network | slurm)
      arguments+=("$1")
      shift
      ;;
    *) die "expected --runs, --seed, --program, --shard, divisions, kills, faults, network or slurm, found '$1'" ;;
  esac
done
[[ -x $program ]] || die "expected $program, found none; build sluice first: scripts/build.sh"
command -v mpirun > /dev/null || die "expected mpirun, found none; install libopenmpi-dev"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # otherwise Open MPI rejects root
exec python3 "$root/scripts/trial.py" --program "$program" "${arguments[@]}"
