import torch

assert torch.version.cuda == "12.8", torch.version.cuda
assert not torch.cuda.is_available()  # there is no GPU where an image is built
assert float((torch.ones(64, 64) @ torch.ones(64, 64)).sum()) == 64**3
print(f"PyTorch {torch.__version__} for CUDA {torch.version.cuda}: multiplies on the processor")
