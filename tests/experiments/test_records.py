"""Stored records: every bit is guarded, writers do not lose each other's lines, older files become today's."""

import contextlib
import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from softpnet.errors import InputError, StorageError
from softpnet.experiments import records
from softpnet.experiments.migrate import SETTINGS, main, migrate
from softpnet.experiments.rows import ROWS, SEEDS
from softpnet.experiments.sealed import read_lines, seal, unseal
from softpnet.storage import digest

COMMITTED = Path(__file__).parents[2] / "results"
ROW = next(row for row in ROWS if row.name == "kand-softg")


@pytest.fixture
def stored(tmp_path):
    """A folder with the ten committed records of one row, and their file."""
    path = records.record_path(tmp_path, ROW)
    path.parent.mkdir()
    shutil.copy(records.record_path(COMMITTED, ROW), path)
    return tmp_path, path


def test_a_flipped_bit_in_a_number_is_noticed(stored):
    folder, path = stored
    assert len(records.read_records(ROW, SEEDS, folder)) == 10
    data = bytearray(path.read_bytes())
    third = data.index(b'"label_accuracy": 0.', len(b"".join(path.read_bytes().splitlines(keepends=True)[:2])))
    at = third + len(b'"label_accuracy": 0.')
    data[at] ^= 1  # a digit becomes its neighbour: valid JSON, in range
    path.write_bytes(data)
    assert json.loads(path.read_bytes().splitlines()[2])["tests"]["test"]["label_accuracy"] <= 1
    message = r"kand-softg\.jsonl, line 3, .* changed after it was made, since the sha256 of .*; remove the line"
    with pytest.raises(InputError, match=message):
        records.read_records(ROW, SEEDS, folder)
    with pytest.raises(InputError, match=r"kand-softg\.jsonl, line 3: it was changed after it was made"):
        records.missing([ROW], SEEDS, folder)


def test_every_flipped_bit_of_a_line_is_noticed():
    line = seal({"row": "a", "seed": 0, "tests": {"test": {"label_accuracy": 0.9760000000000001}}})
    assert json.loads(unseal(line))["tests"]["test"]["label_accuracy"] == 0.9760000000000001
    for bit in range(8 * len(line)):
        flipped = bytearray(line)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(InputError, match=r"damaged|changed after it was made"):
            unseal(bytes(flipped))


@pytest.mark.parametrize("content", [b"{" * 10**5, b'{"row": ' + b"[" * 10**5, b'{"row": "\xff"}', b"{}"])
def test_a_sealed_line_that_is_no_record_is_one_sentence(stored, content):
    folder, path = stored
    path.write_bytes(b'{"sha256": "%s", %s\n' % (digest(content + b"}").encode(), content[1:] + b"}"))
    with pytest.raises(InputError, match=r"line 1, is not averaged with others: it is damaged[^\n]*$"):
        records.read_records(ROW, SEEDS, folder)


def test_lines_are_in_the_order_of_the_seeds_whichever_is_done_first(stored):
    folder, path = stored
    lines = dict(zip(SEEDS, read_lines(path), strict=True))
    path.unlink()
    for seed in (1152, 0, 640, 128):
        records.put_line(path, seed, lines[seed])
    assert read_lines(path) == [lines[seed] for seed in (0, 128, 640, 1152)]
    left = [seed for seed in SEEDS if seed not in (0, 128, 640, 1152)]
    assert records.missing([ROW], SEEDS, folder) == [(ROW, seed) for seed in left]


def test_two_that_finish_at_once_lose_no_line(stored, monkeypatch):
    _, path = stored
    lines = dict(zip(SEEDS, read_lines(path), strict=True))
    path.unlink()
    both = threading.Barrier(2)

    def read_by_both(path):
        """Both would read before either writes, if they were let."""
        found = read_lines(path)
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.1)
        return found

    monkeypatch.setattr(records, "read_lines", read_by_both)
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda seed: records.put_line(path, seed, lines[seed]), SEEDS))
    assert read_lines(path) == list(lines.values()) and sorted(path.parent.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_lines_that_were_there(stored, monkeypatch):
    _, path = stored
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *given: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(StorageError, match=r"kand-softg\.jsonl could not be written: No space left on device"):
        records.put_line(path, 0, read_lines(path)[1])
    assert path.read_bytes() == before and sorted(path.parent.iterdir()) == [path]


def test_a_line_is_not_added_to_a_file_with_a_damaged_one(stored):
    _, path = stored
    first, second, *_ = read_lines(path)
    path.write_bytes(first[:-9] + b"\n")
    with pytest.raises(InputError, match=r"kand-softg\.jsonl, line 1: it was changed .*; remove the line to make it"):
        records.put_line(path, 128, second)
    assert path.read_bytes() == first[:-9] + b"\n"


# Records of older versions


@pytest.fixture
def older(stored):
    """A folder with two records as they once were, a file each with names of its time, and what they hold."""
    folder, path = stored
    found = [json.loads(unseal(line)) for line in read_lines(path)[:2]]
    path.unlink()
    once = {new: old for old, new in SETTINGS.items()}
    for each in found:
        each["settings"] = {once.get(name, name): value for name, value in each["settings"].items()}
        each["curve"] = [epoch | {"weight": 5.0} for epoch in each["curve"]]
        each["image_shape"] = each.pop("input_shape")
        each["command"] = each["command"].replace(" --preset paper", "")
        each["command"] += " --weight 2 --weight-decay 0.1 --weight-ramp 3 --option 'a= --pool'"
        each["configuration"] = records.configuration(each)
        (folder / f"kand-softg-seed{each['seed']}.json").write_text(json.dumps(each, indent=2))
    return folder, found


def test_older_records_become_today_s_and_no_value_changes(older):
    folder, found = older
    assert migrate(folder) == 2
    path = records.record_path(folder, ROW)
    assert sorted(folder.iterdir()) == [path.parent] and [path] == list(path.parent.iterdir())
    for line, before in zip(read_lines(path), found, strict=True):
        now = json.loads(unseal(line))
        assert list(now["settings"]) == [SETTINGS.get(name, name) for name in before["settings"]]
        assert list(now["settings"].values()) == list(before["settings"].values())
        assert [list(epoch.values()) for epoch in now["curve"]] == [list(epoch.values()) for epoch in before["curve"]]
        assert now["curve"][0]["rule_weight"] == 5.0 and "weight" not in now["curve"][0]
        assert now["input_shape"] == before["image_shape"] and len(now) == len(before)
        assert now["command"].startswith("softpnet train kand_logic --method softg --preset paper --seed ")
        assert now["command"].endswith(" --rule-weight 2 --weight-decay 0.1 --rule-ramp 3 --option 'a= --pool'")
        assert now["configuration"] == records.configuration(now) != before["configuration"]
        same = now.keys() - {"settings", "curve", "input_shape", "command", "configuration"}
        assert {name: now[name] for name in same} == {name: before[name] for name in same}
    assert [record.seed for record in records.read_records(ROW, SEEDS, folder)] == [0, 128]
    before = path.read_bytes()
    assert migrate(folder) == 2 and path.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("kand-softg-seed0.json", {"configuration": "0" * 64}, "seed0.json was changed after it was made"),
        (
            "kand-softg-seed0.json",
            {"settings": None},
            r"not a record: .* got `null` - at `\$.settings`",
        ),
        (
            "kand-softg-seed0.json",
            {"curve": [1]},
            r"not a record: .* got `int` - at `\$.curve",
        ),
        ("kand-softg-seed0.json", {"settings": {"kept": 1, "working_set": 1}}, "expected no entry under two names"),
        ("kand-softg-seed0.json", {"settings": {"kepd": 1}}, "has the unknown setting 'kepd'; there are epochs, "),
        ("kand-softg-seed0.json", {"seed": 256}, "is the record of kand-softg, seed 256; give it that name"),
        ("other/kand-softg-seed0.json", {"row": "kand-softg", "epochs": 3}, "holds another record of seed 0"),
    ],
)
def test_what_is_not_understood_is_refused_and_all_is_left_as_it_was(older, name, changes, message):
    folder, found = older
    (folder / name).parent.mkdir(exist_ok=True)
    forged = found[0] | changes
    if isinstance(forged["settings"], dict) and "configuration" not in changes:
        forged["configuration"] = records.configuration(forged)
    (folder / name).write_text(json.dumps(forged))
    before = {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}
    with pytest.raises(InputError, match=message):
        migrate(folder)
    assert {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")} == before


def test_lines_that_are_damaged_or_in_another_row_s_file_are_not_migrated(stored):
    folder, path = stored
    other = path.rename(path.with_name("other.jsonl"))
    with pytest.raises(InputError, match=r"other\.jsonl holds a record of .*kand-softg\.jsonl; move it there"):
        migrate(folder)
    other.write_bytes(other.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"other\.jsonl, line 10: .* restore it from a copy"):
        migrate(folder)


def test_the_command_says_how_many_records_there_are_or_what_is_wrong(older, capsys):
    folder, _ = older
    main(folder)
    assert capsys.readouterr().out == "2 records\n"
    path = records.record_path(folder, ROW)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(SystemExit, match=r"kand-softg\.jsonl, line 2: [^\n]*; restore it from a copy$"):
        main(folder)
