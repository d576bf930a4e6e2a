"""The policy on system calls as a program for the kernel, which bubblewrap loads."""

import importlib
import tempfile
from errno import ENOSYS, EPERM
from typing import Any

from sandbox.contract import SandboxFault
from sandbox.seccomp import ArgumentIs, Policy, policy


def kernel_filter() -> bytes:
    """The policy as BPF, for this machine's architecture.

    Raises:
        SandboxFault: libseccomp is not on this machine.
    """
    library = _library()
    with tempfile.TemporaryFile() as file:
        _filled(library, policy()).export_bpf(file)
        file.seek(0)
        return file.read()


def _filled(library: Any, rules: Policy) -> Any:
    """A filter with all rules. Calls that this libseccomp does not know yet fall under the default."""
    made = library.SyscallFilter(library.ERRNO(ENOSYS))
    for name in filter(lambda name: _is_known(library, name), rules.allowed):
        made.add_rule(library.ALLOW, name)
    for each in rules.conditions:
        made.add_rule(library.ALLOW, each.call, *(_argument(library, asked) for asked in each.arguments))
    for name in filter(lambda name: _is_known(library, name), rules.refused):
        made.add_rule(library.ERRNO(EPERM), name)
    return made


def _argument(library: Any, asked: ArgumentIs) -> Any:
    if asked.mask is None:
        return library.Arg(asked.argument, library.EQ, asked.value)
    return library.Arg(asked.argument, library.MASKED_EQ, asked.mask, asked.value)


def _is_known(library: Any, name: str) -> bool:
    try:
        number = library.resolve_syscall(library.system_arch(), name)
    except (ValueError, OSError):
        return False
    return isinstance(number, int) and number >= 0


def _library() -> Any:
    """pyseccomp, which looks for the C library when it is imported: a machine without it still runs containers."""
    try:
        return importlib.import_module("pyseccomp")
    except (ImportError, OSError, RuntimeError) as error:
        raise SandboxFault(f"libseccomp is missing ({error}): apt-get install libseccomp2") from error
