"""The table of ports says where a job meets, and each wrong line is named."""

import re

import pytest

from acp_mpi.errors import Error
from acp_mpi.job.rendezvous import portfile, secret

GOOD = """\
0 3 44256 44257 rhost_00 rhost_01
1 3 44257 44258 rhost_01 rhost_02

2 3 44258 44256 rhost_02 rhost_00
"""


def written(folder, text):
    path = folder / "Portfile"
    path.write_text(text)
    return path


def test_the_first_row_is_where_the_job_meets(tmp_path):
    table = portfile.read(written(tmp_path, GOOD))
    assert (table.ranks, table.address) == (3, "rhost_00:44256")


def test_a_job_on_one_host_meets_on_its_loopback_interface(tmp_path):
    table = portfile.read(written(tmp_path, re.sub("rhost_0.", "node7", GOOD)))
    assert table.address == "127.0.0.1:44256"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("44257 rhost_00", "rhost_00", "line 1 has 5 columns: expected rank nprocs lport rport"),
        ("1 3 44257", "1 3 x", "line 2: .* begins with no four numbers"),
        ("44258 44256", "44258 0", "line 4: there is no port 0; expected 1 to 65535"),
        ("1 3 44257 44258", "2 3 44257 44258", "row 1 is of rank 2: expected 0 to 2, one row each"),
        ("2 3 44258", "2 4 44258", "row 2 says that there are 4 ranks, and there are 3 rows"),
        ("44258 rhost_01 rhost_02", "44259 rhost_01 rhost_02", "row 1 ends with 44259 rhost_02"),
        ("rhost_02 rhost_00", "rhost_02 rhost_01", "expected port and host of the next rank"),
        (GOOD, "\n", "is empty: expected rows of rank nprocs"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, old, new, words):
    with pytest.raises(Error, match=words):
        portfile.read(written(tmp_path, GOOD.replace(old, new)))


def test_a_table_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(Error, match="nowhere' cannot be read: No such file"):
        portfile.read(tmp_path / "nowhere")
    (tmp_path / "Portfile").write_bytes(b"\xff\xfe")
    with pytest.raises(Error, match="Portfile' cannot be read: it is not text"):
        portfile.read(tmp_path / "Portfile")


@pytest.mark.parametrize(("offset", "size"), [(3, 1), (2, 2), (0, 4)])
def test_a_group_that_is_not_in_the_table_is_an_error(tmp_path, offset, size):
    table = portfile.read(written(tmp_path, GOOD))
    table.check_group(0, 3)
    with pytest.raises(Error, match="there are 0 to 2; an offset is the sum"):
        table.check_group(offset, size)


def test_the_secret_lies_beside_the_table_and_nobody_else_may_read_it(tmp_path):
    table = portfile.read(written(tmp_path, GOOD))
    with pytest.raises(Error, match=r"Portfile\.secret' cannot be read"):
        table.secret()
    key = secret.create(tmp_path / "Portfile.secret")
    assert table.secret() == key
    (tmp_path / "Portfile.secret").chmod(0o640)
    with pytest.raises(PermissionError, match="0640"):
        table.secret()
