import subprocess
from pathlib import Path

SOURCE = """
#include <cstdio>
__global__ void twice(float *x) { x[threadIdx.x] *= 2; }
int main() { int version; cudaRuntimeGetVersion(&version); printf("%d", version); return 0; }
"""
Path("/tmp/twice.cu").write_text(SOURCE)
for linked in ("static", "shared"):
    command = ["nvcc", "-arch=sm_90", f"--cudart={linked}", "-o", f"/tmp/{linked}", "/tmp/twice.cu"]
    subprocess.run(command, cwd="/tmp", check=True)
    said = subprocess.run([f"/tmp/{linked}"], capture_output=True, text=True, check=True).stdout
    assert said == "13000", said
print("CUDA 13.0: nvcc compiles and links, and what it made runs")
