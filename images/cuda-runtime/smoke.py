import ctypes

cudart, nvrtc = ctypes.CDLL("libcudart.so.13"), ctypes.CDLL("libnvrtc.so.13")
ctypes.CDLL("libcublas.so.13")
version, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
assert cudart.cudaRuntimeGetVersion(ctypes.byref(version)) == 0
assert nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)) == 0
assert (version.value, major.value, minor.value) == (13000, 13, 0), (version.value, major.value, minor.value)

# device code is compiled with no GPU and no driver
program, size = ctypes.c_void_p(), ctypes.c_size_t()
source = b'extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }'
assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"twice.cu", 0, None, None) == 0
option = (ctypes.c_char_p * 1)(b"--gpu-architecture=compute_90")
assert nvrtc.nvrtcCompileProgram(program, 1, option) == 0
assert nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size)) == 0
assert size.value > 100
print("CUDA 13.0: its runtime loads, and device code compiles")
