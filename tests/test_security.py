"""Names never lead out of the place that files belong to, and secrets stay in the environment."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from palimpsest.paths import file_name

NASTY = [
    "../../x",
    "/etc/passwd",
    "..",
    ".",
    "",
    "a/b",
    "a\\b",
    "nul\0byte",
    "x" * 5000,
    "ключ 🔑",
    "con\n",
    " ",
    "C:\\x",
]


@given(st.text())
@example("../../x")
@example("\ud800")
@example("\U00020000" * 300)
def test_a_name_is_one_component_of_a_path(name: str) -> None:
    plain = file_name(name)
    assert Path("out", plain).parent == Path("out")
    assert plain not in ("", ".", "..")
    assert not plain.startswith((".", "-"))
    assert len(plain.encode()) <= 255
    assert plain.isprintable()
    assert not set(plain) & set('/\\:\0*?"<>|')


@given(st.text(), st.text())
def test_different_names_stay_different(one: str, other: str) -> None:
    assert (file_name(one) == file_name(other)) == (one == other)


@pytest.mark.parametrize("name", ["paper", "tamkin-2020", "v1.2", "größe"])
def test_ordinary_names_stay_as_they_are(name: str) -> None:
    assert file_name(name) == name


@pytest.mark.parametrize("name", NASTY)
def test_figures_of_several_studies_stay_in_their_folder(tmp_path: Path, name: str) -> None:
    from palimpsest.cli.studied import folder_of

    made: Any = SimpleNamespace(studies=(1, 2))
    study: Any = SimpleNamespace(name=name)
    folder = folder_of(tmp_path / "figures", study, made)
    folder.mkdir(parents=True)
    assert folder.resolve().is_relative_to((tmp_path / "figures").resolve())
    assert folder.resolve() != (tmp_path / "figures").resolve()


@pytest.mark.parametrize("name", NASTY)
def test_only_identities_are_looked_up_in_a_store(tmp_path: Path, name: str) -> None:
    from palimpsest.errors import StoreError
    from palimpsest.store import open_store

    store = open_store(tmp_path / "store", create=True)
    with pytest.raises(StoreError, match="not the identity of a trial"):
        store.get(name)
    assert name not in store
    assert list(store.records([name])) == []


SECRETS = ("AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "WANDB_API_KEY", "MY_PASSWORD")


def test_secrets_in_the_environment_do_not_end_up_in_the_store(
    tmp_path: Path, monkeypatch: Any, capfd: Any, tiny_tokenizer: Any
) -> None:
    from families import save

    from palimpsest import run

    for name in SECRETS:
        monkeypatch.setenv(name, f"hush-{name.lower()}")
    for split in ("train", "validation"):
        rows = "".join(f"the {w} is good\t{i % 2}\n" for i, w in enumerate(("king", "city", "film", "year")))
        (tmp_path / f"{split}.tsv").write_text("sentence\tlabel\n" + rows)
    save(tmp_path / "encoder", "bert", tiny_tokenizer)
    study = tmp_path / "study.yaml"
    study.write_text(
        f"encoder: {tmp_path}/encoder\nprotocol: {{extends: paper, epochs: 1, batch_size: 4}}\n"
        f"tasks: [{{name: mine, train: {tmp_path}/train.tsv, validation: {tmp_path}/validation.tsv, "
        "text: sentence, label: label}]\nexperiments: [{kind: incremental, preserved: [3], sizes: [4], trials: 1}]\n"
    )
    run(str(study), tmp_path / "store", device="cpu", processes=1)
    written = [p.read_bytes() for p in (tmp_path / "store").rglob("*") if p.is_file()]
    shown = "".join(capfd.readouterr()).encode()
    assert any(b'"finished"' in content for content in written)
    for content in (*written, shown):
        assert b"hush-" not in content
        assert os.uname().nodename.encode() not in content
