#!/bin/bash
#SBATCH --job-name=alhena
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=08:00:00

# sbatch slurm.sh TASKS RESULTS [options of alhena batch]
#
# Runs the tasks on a Ray cluster of the job's nodes. RESULTS and the folders of the tasks are in a
# file system that all nodes see. The environment on the nodes has alhena-agent[ray]; the API key is
# in a file that only you can read, ~/.config/alhena/batch.env: GEMINI_API_KEY=…
# A job that ended early is continued by the same command.

set -euo pipefail
tasks=$1
results=$2
shift 2

set -a
# shellcheck source=/dev/null
source "${ALHENA_BATCH_ENV:-$HOME/.config/alhena/batch.env}"
set +a
token=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN=$token RAY_USAGE_STATS_ENABLED=0

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
first=${nodes[0]}
port=$((20000 + SLURM_JOB_ID % 20000))
address=$(srun --nodes=1 --ntasks=1 --nodelist="$first" hostname --ip-address | awk '{print $1}')

srun --nodes=1 --ntasks=1 --nodelist="$first" --overlap \
    ray start --head --node-ip-address="$address" --port="$port" --include-dashboard=false \
    --num-cpus="${SLURM_CPUS_PER_TASK:-1}" --block &
for _ in {1..60}; do
    ray health-check --address "$address:$port" 2> /dev/null && break
    sleep 1
done
for node in "${nodes[@]:1}"; do
    srun --nodes=1 --ntasks=1 --nodelist="$node" --overlap \
        ray start --address="$address:$port" --num-cpus="${SLURM_CPUS_PER_TASK:-1}" --block &
done

if [[ -e $results.run ]]; then
    command=(resume "$results.run")
else
    command=("$tasks" --out "$results" --engine ray)
fi
srun --nodes=1 --ntasks=1 --nodelist="$first" --overlap \
    alhena batch "${command[@]}" --address "$address:$port" "$@"
