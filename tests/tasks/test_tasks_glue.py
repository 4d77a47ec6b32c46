"""GLUE's own files in a directory, as users have them, and as users have them broken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from palimpsest.errors import DataError, UnknownName
from palimpsest.tasks import registry
from palimpsest.tasks.known import KNOWN

MNLI_HEADER = "index\tpromptID\tsentence1\tsentence2\tlabel1\tgold_label"
FILES = {
    "cola": ("CoLA", "x1\t1\t\tFine it is.\nx1\t0\t*\tIs fine\u2028it.\n"),
    "sst2": ("SST-2", 'sentence\tlabel\na "fine film \t1\na bad one \t0\n'),
    "qnli": ("QNLI", "index\tquestion\tsentence\tlabel\n0\tWho?\tHe.\tentailment\n1\tWhy?\tHe.\tnot_entailment\n"),
    "mrpc": ("MRPC", "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t5\t6\tA .\tB .\r\n0\t7\t8\tC .\tD .\r\n"),
    "rte": ("RTE", "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\tnot_entailment\n1\tC.\tD.\tentailment\n"),
    "wnli": ("WNLI", "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\t0\n1\tC.\tD.\t1\n"),
    "stsb": ("STS-B", "index\tsentence1\tsentence2\tscore\n0\tA.\tB.\t5.000\n1\tC.\tD.\t0.25\n"),
    "qqp": ("QQP", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t1\t2\tA?\tB?\t1\n2\t3\t4\tA?\tC?\t0\n"),
    "mnli": ("MNLI", f"{MNLI_HEADER}\n0\tp\tA.\tB.\tx\tcontradiction\n1\tp\tC.\tD.\tx\tneutral\n"),
}
TARGETS = {
    "cola": [1, 0], "sst2": [1, 0], "qnli": [0, 1], "mrpc": [1, 0], "rte": [1, 0], "wnli": [0, 1],
    "stsb": [5.0, 0.25], "qqp": [1, 0], "mnli": [2, 1],
}  # fmt: skip


def write(directory: Path, name: str, train: str | bytes | None = None, validation: str | bytes | None = None) -> Path:
    folder, content = FILES[name]
    (directory / folder).mkdir(parents=True, exist_ok=True)
    for file, given in (("train.tsv", train), (KNOWN[name].validation_file, validation)):
        text = content if given is None else given
        (directory / folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    return directory


@pytest.mark.parametrize("name", FILES)
def test_reads_the_layout_of_each_task(tmp_path: Path, name: str) -> None:
    task = registry.load(name, write(tmp_path, name))
    assert len(task.train) == len(task.validation) == 2
    np.testing.assert_array_equal(np.asarray(task.train.targets), TARGETS[name])
    assert (task.train.second is None) == (name in {"cola", "sst2"})
    assert task.metrics == KNOWN[name].metrics


def test_fields_are_not_quoted_and_only_newlines_end_a_row(tmp_path: Path) -> None:
    write(tmp_path, "sst2")
    write(tmp_path, "cola")
    assert registry.load("sst2", tmp_path).train.first[0] == 'a "fine film '
    assert registry.load("cola", tmp_path).train.first[1] == "Is fine\u2028it."


def test_mrpc_tolerates_a_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    train = registry.load("mrpc", write(tmp_path, "mrpc")).train
    assert (train.first[0], train.second[0] if train.second else None) == ("A .", "B .")


def test_the_glue_folder_may_be_one_below(tmp_path: Path) -> None:
    write(tmp_path / "glue", "cola")
    assert len(registry.load("CoLA", tmp_path).train) == 2


@pytest.mark.parametrize("spelling", ["SST-2", "sst-2", "sst2", "Sst_2"])
def test_names_in_any_spelling(tmp_path: Path, spelling: str) -> None:
    assert registry.load(spelling, write(tmp_path, "sst2")).name == "sst2"
    assert registry.identify(spelling, None).name == "sst2"


def test_unknown_names_get_advice() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'cola'"):
        registry.load("colla")
    with pytest.raises(UnknownName, match="mini-sentiment"):
        registry.load("mini-sentimental")


def test_qqp_alone_skips_ragged_rows(tmp_path: Path) -> None:
    ragged = FILES["qqp"][1] + "3\t5\t6\tonly one question\n4\t7\t8\tE?\tF?\t1\n"
    task = registry.load("qqp", write(tmp_path, "qqp", train=ragged))
    assert list(task.train.first) == ["A?", "A?", "E?"]
    assert "1 ragged rows skipped" in task.source
    broken = FILES["qqp"][1].splitlines()[0] + "\n1\t2\n"
    with pytest.raises(DataError, match=r"train\.tsv:1: .*all 1 rows have columns missing"):
        registry.load("qqp", write(tmp_path, "qqp", train=broken))


HEAD = "index\tsentence1\tsentence2\tlabel\n"
GOOD = HEAD + "0\tA.\tB.\tentailment\n"


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        ("index\tsentence1\tsentence_2\tlabel\n0\tA\tB\tentailment\n", 1, "no column 'sentence2'; did you mean 'sent"),
        ("a\tsentence1\tb\tlabel\n0\tA\tB\tentailment\n", 1, "no column 'sentence2'"),
        (GOOD + "1\tA.\tentailment\n", 3, "3 columns where there should be 4"),
        (GOOD + "1\tA.\tB.\textra\tentailment\n", 3, "5 columns where there should be 4"),
        (GOOD + "\n2\tA.\tB.\tperhaps\n", 4, "'perhaps' in column 'label' is not a label"),
        ("", 1, "the file is empty"),
        ("\n \n", 1, "the file is empty"),
        (HEAD, 1, "no example"),
        (GOOD.encode() + b"1\tcaf\xe9\tB.\tentailment\n", 3, "byte 0xe9 is not UTF-8"),
        (GOOD.encode("utf-16"), 1, "not UTF-8"),
        ("index\tsentence1\tsentence1\tlabel\n0\tA\tB\tentailment\n", 1, "'sentence1' twice"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(
    tmp_path: Path, content: str | bytes, line: int, says: str
) -> None:
    write(tmp_path, "rte", validation=content)
    with pytest.raises(DataError) as caught:
        registry.load("rte", tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'RTE' / 'dev.tsv'}:{line}: ")
    assert says in str(caught.value)


@pytest.mark.parametrize("value", ["high", "nan", "inf", ""])
def test_similarities_are_finite_numbers(tmp_path: Path, value: str) -> None:
    write(tmp_path, "stsb", train=FILES["stsb"][1] + f"2\tE.\tF.\t{value}\n")
    with pytest.raises(DataError, match=r"train\.tsv:4: .* is not a finite number"):
        registry.load("stsb", tmp_path)


def test_missing_directories_and_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such directory"):
        registry.load("cola", tmp_path / "nowhere")
    with pytest.raises(DataError, match="neither CoLA/ nor glue/CoLA/"):
        registry.load("cola", tmp_path)
    (write(tmp_path, "cola") / "CoLA" / "dev.tsv").unlink()
    with pytest.raises(DataError, match=r"dev\.tsv: no such file"):
        registry.load("cola", tmp_path)
    (tmp_path / "CoLA" / "dev.tsv").mkdir()
    with pytest.raises(DataError, match=r"dev\.tsv: cannot be read"):
        registry.load("cola", tmp_path)


def test_real_glue_has_the_official_sizes(real_data: Path) -> None:
    for name in ("cola", "sst2", "mrpc", "rte", "wnli", "stsb"):
        task = registry.load(name, real_data)
        assert (len(task.train), len(task.validation)) == KNOWN[name].official, name
        assert registry.identify(name, real_data) == registry.identify(name, None), name


def test_a_partial_qnli_is_another_data_set(real_data: Path) -> None:
    task = registry.load("qnli", real_data)
    complete = len(task.train) == KNOWN["qnli"].train_rows
    assert len(task.validation) == KNOWN["qnli"].validation_rows
    assert (task.data is None) == complete
    assert registry.identify("qnli", real_data).train_rows == len(task.train)
