"""What Ray carries to another node: the encoder and the data once, however many packs run there.

    python benchmarks/ray_transfer.py --trials 160 --out result.json

Two nodes of one core each, as processes of this machine. What has come into the object store of the second one is asked
of Ray itself. Fails if that is more than the encoder and the data once, and a tenth.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

from circumstances import circumstances, write

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}

import ray
from ray._private.internal_api import node_stats
from ray.cluster_utils import Cluster
from ray_load import prepare

from palimpsest.execution.packing import pack
from palimpsest.execution.plan import make_plan
from palimpsest.execution.run import run_plan
from palimpsest.execution.worker import gather
from palimpsest.store import open_store
from palimpsest.studies import load


def arrived(node: Any) -> tuple[int, int]:
    """Objects and bytes that were ever made in a node's object store."""
    (found,) = (n for n in ray.nodes() if n["NodeID"] == node.node_id)
    stats = node_stats(found["NodeManagerAddress"], found["NodeManagerPort"], False).store_stats
    return stats.cumulative_created_objects, stats.cumulative_created_bytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=160)
    parser.add_argument("--hidden", type=int, default=256, help="how large the encoder is")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    other = cluster.add_node(num_cpus=1)
    ray.init(str(cluster.address), log_to_driver=False)
    packs: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        study = prepare(folder, args.trials, args.hidden)
        store = open_store(folder / "store", create=True)
        plan = make_plan(load(str(study)), store)
        things = gather(pack(plan, plan.missing(), 8)[0], plan.resources)
        once = sum(len(ray.cloudpickle.dumps(thing)) for thing in things)
        before = arrived(other)
        run_plan(plan, store, str(folder / "store"), lambda e: packs.append(e.kind), "cpu", executor="ray")
        after = arrived(other)
        assert len(store.finished_ids()) == args.trials
    ray.shutdown()
    cluster.shutdown()
    report = {
        "what": "what came into the object store of the second of two nodes of one core each",
        "trials": args.trials,
        "packs on both nodes": packs.count("begin"),
        "encoder and data, MB": round(once / 1e6, 2),
        "objects": after[0] - before[0],
        "MB": round((after[1] - before[1]) / 1e6, 2),
        **circumstances("ray", "torch", "transformers"),
    }
    print(report)
    write(report, args.out)
    assert 0 < after[1] - before[1] < 1.1 * once + 1e5


if __name__ == "__main__":
    main()
