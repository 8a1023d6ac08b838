#!/usr/bin/env bash
# Builds both programs and times them in turn, shape by shape, on one core; prints
# the tables that join them. README.md says what is compared.
#
#   bench/onednn/run.sh [SHAPE...]    a shape is NN:M,K,N, NT:M,K,N or TN:M,K,N
#
# ROUNDS (2) is how often the whole is repeated, CORE (the last one allowed) where it runs,
# KEEP a file to keep both programs' lines of JSON in.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
rounds=${ROUNDS:-2}
core=${CORE:-$(grep Cpus_allowed_list /proc/self/status | grep -oE "[0-9]+$")}

# The released dense shape's layers forward, the gradients of their inputs (NT) and
# of their weights (TN, over the tokens), and two general ones.
shapes=("$@")
[ $# -gt 0 ] || shapes=(
  NN:2048,256,1280 NN:4096,256,640 NN:4096,640,256
  NT:2048,1280,256 NT:4096,640,256 NT:4096,256,640
  TN:256,4096,1280 TN:256,4096,640 TN:640,4096,256
  NN:1024,1024,1024 NT:1024,1024,1024 TN:1024,1024,1024
  NN:256,384,1536 NT:256,384,1536 TN:256,384,1536
)

build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
"${CC:-cc}" -O2 -std=gnu11 -Wall -Wextra -o "$build/onednn" "$here/onednn.c" "$here/peaks.c" -ldnnl -fopenmp -lm
(cd "$here/../.." && go build -o "$build/peers" ./bench/peers)

lines=${KEEP:-$build/lines}
: >"$lines"
for ((round = 1; round <= rounds; round++)); do
  for shape in "${shapes[@]}"; do
    printf '\rround %d of %d: %-20s' "$round" "$rounds" "$shape" >&2
    taskset -c "$core" env OMP_NUM_THREADS=1 "$build/onednn" "$shape" >>"$lines" 2>"$build/log" || {
      cat "$build/log" >&2
      exit 1
    }
    taskset -c "$core" "$build/peers" "$shape" >>"$lines"
  done
done
printf '\r%-40s\r' '' >&2
"$build/peers" -table <"$lines"
