"""The look at an uploaded tar: no bytes make it fail in any other way than by refusing them."""

import io
import tarfile

from hypothesis import given
from hypothesis import strategies as st
from tars import tar_of

from api.tar_check import check_tar
from domain.errors import Invalid

GOOD = tar_of({"a/b.txt": b"x" * 700, "x" * 150 + "/y": b"1", "é": b""})


def take(data: bytes) -> bool:
    """Whether it is taken."""
    try:
        check_tar(io.BytesIO(data), len(data), 10)
    except Invalid:
        return False
    return True


@given(st.binary(max_size=3000))
def test_noise(data: bytes) -> None:
    take(data)


@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), max_size=8), st.booleans())
def test_damage(changes: list[tuple[int, int]], is_mended: bool) -> None:
    """Some bytes are changed; with the checksums made right again, so that the look goes on."""
    data = bytearray(GOOD)
    for position, value in changes:
        data[position] = value
    if is_mended:
        for begin in range(0, len(data), 512):
            header = data[begin : begin + 512]
            total = sum(header) - sum(header[148:156]) + 8 * 32
            data[begin + 148 : begin + 156] = b"%06o\0 " % total
    take(bytes(data))


@given(st.integers(0, len(GOOD)))
def test_what_is_cut_is_whole_or_refused(length: int) -> None:
    taken = take(GOOD[:length])
    if length < len(GOOD) - tarfile.RECORDSIZE:
        assert not taken or length % 512 == 0


def test_members_are_counted() -> None:
    assert take(tar_of({str(number): b"" for number in range(10)}))
    assert not take(tar_of({str(number): b"" for number in range(11)}))
