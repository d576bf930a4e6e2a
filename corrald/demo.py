"""`corrald demo`: the main job from end to end, on an embedded Corral, by the commands a tenant would type."""

import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from corral import Client
from corral.accounts import TenantSpec
from corral.identity import KeySpec
from corral.images import ImageSpec
from corral.jobs import IsolationLevel
from corral.prices import PriceSpec
from corral.quotas import GpuQuota, QuotaSpec
from rich.console import Console

from corrald.home import Home
from corrald.machine import has_nvidia, why_not
from corrald.supervisor import ChildDied
from corrald.up import UpSettings, running
from domain.levels import Level
from sandbox.engine_client import EngineClient
from sandbox.engine_facts import static_busybox
from sandbox.local_image import ensure_busybox_image

LEVELS: dict[str, IsolationLevel] = {"process": "process", "docker": "container"}
NODE_SECONDS = 30
CURRENCY_MICRO = 1_000_000
INPUT = Path(__file__).parent / "demo_input"
WORK = r"""
set -eu
echo "counting the words of $(ls /in/*.txt | wc -l) texts, on $CORRAL_GPUS device(s): $CORRAL_GPU_MODELS"
for text in /in/*.txt; do
    words=$(wc -w < "$text")
    echo "$(basename "$text"): $words words"
    sleep 0.5
done
cat /in/*.txt | tr -cs 'A-Za-z' '\n' | tr 'A-Z' 'a-z' | grep -v '^$' | sort | uniq -c | sort -k1,1nr -k2 > /tmp/counts
awk 'BEGIN { print "word,count" } { print $2 "," $1 }' /tmp/counts > /out/words.csv
sed -n '2,4p' /out/words.csv
echo "done: $(wc -l < /tmp/counts) different words"
"""

console = Console(soft_wrap=True, highlight=False)


def run(sandbox: str, *, keep: bool) -> int:
    """Run it; 0 if all of it worked."""
    if sandbox not in LEVELS:
        console.print(f"There is no sandbox {sandbox}; choose one of {', '.join(LEVELS)}.", markup=False)
        return 2
    level = LEVELS[sandbox]
    if reason := why_not(Level(level)):
        console.print(f"The demo cannot run here, and no job runs without a wall: {reason}", markup=False)
        if level == "process":
            console.print("Or run it in containers: ./dev demo --sandbox docker", markup=False)
        return 1
    began = time.monotonic()
    try:
        with _scratch_home(keep) as home:
            return _tour(home, level, began)
    except (ChildDied, TimeoutError, OSError, subprocess.CalledProcessError) as problem:
        console.print(f"The demo failed: {problem}", markup=False)
        return 1


@contextmanager
def _scratch_home(keep: bool) -> Iterator[Home]:
    path = Path(tempfile.mkdtemp(prefix="corral-"))
    path.chmod(0o711)
    try:
        yield Home(path)
    finally:
        if keep:
            console.print(f"The demo's folder is left at {path}", markup=False)
        else:
            shutil.rmtree(path, ignore_errors=True)


def _tour(home: Home, level: IsolationLevel, began: float) -> int:
    simulated = 0 if has_nvidia() else 2
    if simulated:
        console.print(
            "No NVIDIA GPU on this machine: the node pretends to have two, called simulated wherever they show."
        )
    settings = UpSettings(home, port=_free_port(), simulated_gpus=simulated, levels=level)
    with running(settings) as now:
        console.print(
            f"Corral is up at {now.url}: API, control, worker and a private Valkey, each a process of its own."
        )
        with Client(now.url, now.admin_key) as admin:
            _await_node(admin, level)
            tenant_key = _set_up_tenant(admin, level)
            image = _image(admin, level)
        return _as_tenant(now.url, tenant_key, home, image, level, began)


def _set_up_tenant(admin: Client, level: IsolationLevel) -> str:
    tenant = admin.create_tenant(TenantSpec(name="demo-lab", default_isolation=level))
    quota = QuotaSpec(gpus=[GpuQuota(model="*", limit=2)], isolation_levels=[level])
    admin.set_tenant_quota(tenant.id, quota)
    admin.set_price(PriceSpec(model="*", micro_per_gpu_hour=2 * CURRENCY_MICRO))
    key = admin.create_tenant_key(tenant.id, KeySpec(name="demo"))
    console.print(f"Made the tenant {tenant.name}, a key for it, a quota of 2 GPUs, and a price of 2.00 per GPU-hour.")
    return key.key


def _image(admin: Client, level: IsolationLevel) -> str:
    if level == "process":
        return "host"
    engine = EngineClient()
    image_id = ensure_busybox_image(engine, static_busybox())
    engine.close()
    admin.add_image(ImageSpec(name="busybox", reference=image_id, description="built here, with no registry"))
    console.print(f"Built an image on the spot and admitted it by its id: {image_id[:19]}…")
    return "busybox"


def _as_tenant(url: str, key: str, home: Home, image: str, level: str, began: float) -> int:
    env = {**os.environ, "CORRAL_URL": url, "CORRAL_KEY": key}
    results = home.path / "results"
    submitted = _corral(
        env,
        ["submit", "--name", "word-count", "--image", image, "--gpus", "1", "--memory", "256MiB", "--time-limit", "2m"],
        ["--input", str(INPUT), "--wait", "--follow", "--output-dir", str(results), "--", "sh", "-c", WORK],
        shown=f"corral submit --name word-count --image {image} --gpus 1 --input texts/ --wait --follow "
        f"--output-dir results/ -- sh -c '…'",
    )
    with Client(url, key) as client:
        job = next(iter(client.jobs(name="word-count")))
    if submitted == 0:
        console.print("\nThe first lines of the artifact results/words.csv:")
        console.print("\n".join((results / "words.csv").read_text().splitlines()[:4]), markup=False)
    _corral(env, ["show", job.id, "--isolation", "--ledger"])
    _corral(env, ["usage", "--by", "tenant,model"])
    seconds = time.monotonic() - began
    console.print(f"\nDone in {seconds:.1f} s. A job at level {level} ran, and its time stands in the ledger.")
    return submitted


def _corral(env: dict[str, str], *arguments: Sequence[str], shown: str = "") -> int:
    """Run the tenant's command, and say which."""
    words = [word for part in arguments for word in part]
    console.print(f"\n$ {shown or shlex.join(['corral', *words])}", markup=False, style="bold")
    return subprocess.run([sys.executable, "-m", "corral.cli.main", *words], env=env, check=False).returncode


def _await_node(admin: Client, level: IsolationLevel) -> None:
    deadline = time.monotonic() + NODE_SECONDS
    while True:
        nodes = list(admin.nodes())
        if any(level in node.levels for node in nodes):
            return
        if time.monotonic() > deadline:
            reasons = [reason for node in nodes for reason in node.level_reasons.get(level, [])]
            raise TimeoutError(f"no node offers the level {level}: {'; '.join(reasons) or 'none joined'}")
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
