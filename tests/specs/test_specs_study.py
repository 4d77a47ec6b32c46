"""Study files: what they may say, and what is said about those that cannot be read."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palimpsest.errors import PalimpsestError, SpecError, UnknownName
from palimpsest.specs.settings import apply_settings, parse_settings
from palimpsest.specs.size import parse_size, size_label
from palimpsest.specs.study import Study
from palimpsest.specs.study_file import read
from palimpsest.specs.task_file import TaskFile

PLAIN: dict[str, Any] = {"tasks": ["sst2", "cola"], "experiments": [{"kind": "incremental"}, {"kind": "probing"}]}


def write(folder: Path, content: Any) -> Path:
    path = folder / "mine.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content), encoding="utf-8")
    return path


def study_of(folder: Path, content: Any, *pairs: str) -> Study:
    return read(write(folder, content), parse_settings(list(pairs)))


def experiment(folder: Path, **fields: Any) -> Any:
    return study_of(folder, {"tasks": "sst2", "experiments": [{"kind": "incremental"} | fields]}).experiments[0]


# Sizes


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (500, 500), ("500", 500), ("5k", 5000), ("5K", 5000), ("1.5k", 1500), ("4.1k", 4100), ("50_000", 50000),
        ("10%", 0.1), ("0.7%", 0.007), ("0.6 %", 0.006), (0.1, 0.1), ("0.1", 0.1), ("100%", None), ("all", None),
        (None, None), (500.0, 500), (1, 1), ("29%", 0.29),
    ],
)  # fmt: skip
def test_sizes(written: Any, meant: Any) -> None:
    assert parse_size(written) == meant
    assert type(parse_size(written)) is type(meant)


@pytest.mark.parametrize(
    "bad",
    [0, -5, 1.5, True, "", "5 m", "k", "%", "-5k", "101%", "0%", [], {}, float("nan"), float("inf"), "9" * 400, 10**30],
)
def test_what_is_no_size(bad: Any) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(bad)


@given(st.integers(1, 10**7) | st.integers(1, 9999).map(lambda n: n / 10_000) | st.none())
def test_labels_of_sizes_can_be_read_back(size: Any) -> None:
    assert parse_size(size_label(size)) == size


def test_trials_and_epochs_by_size(tmp_path: Path) -> None:
    e = experiment(
        tmp_path, sizes=["500", "5k", "10%"], trials={500: 50, "10%": 2, "default": 3}, epochs={"5k": 4, "default": 5}
    )
    assert [e.at_size(e.trials, s) for s in e.sizes] == [50, 3, 2]
    assert [e.at_size(e.epochs, s) for s in e.sizes] == [5, 4, 5]


def test_what_is_named_twice_counts_once(tmp_path: Path) -> None:
    e = experiment(tmp_path, sizes=[500, "500", "0.5k"], tasks=["sst2", "SST-2"], preserved=["L", 3, "L"])
    assert (e.sizes, e.tasks, e.preserved) == ((500,), ("sst2",), ("L", 3))


# Tasks


def test_known_tasks_have_one_spelling(tmp_path: Path) -> None:
    study = study_of(tmp_path, {"tasks": ["SST-2", "CoLA"], "experiments": [{"kind": "incremental", "tasks": "Sst2"}]})
    assert study.task_names == ("sst2", "cola")
    assert study.experiments[0].tasks == ("sst2",)
    with pytest.raises(SpecError, match=r"mine\.yaml: a task is named twice"):
        study_of(tmp_path, {"tasks": ["SST-2", "sst2"], "experiments": [{"kind": "incremental"}]})


@pytest.mark.parametrize("listed", [True, False])
def test_own_files_are_found_beside_the_study(tmp_path: Path, listed: bool) -> None:
    absolute = str(tmp_path / "elsewhere" / "b.csv")
    own = {"name": "mine", "train": "data/a.csv", "validation": absolute, "text": "t", "label": "l"}
    study = study_of(tmp_path, {"tasks": [own] if listed else own, "experiments": [{"kind": "incremental"}]})
    [task] = study.tasks
    assert isinstance(task, TaskFile)
    assert (task.train, str(task.validation)) == (tmp_path / "data" / "a.csv", absolute)


def test_an_experiment_on_a_task_that_the_study_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"mine\.yaml: the experiment's task 'qnli' is not among the study's: sst2"):
        experiment(tmp_path, tasks="qnli")


# Settings


def test_settings_reach_all_experiments(tmp_path: Path) -> None:
    study = study_of(tmp_path, PLAIN, "sizes=500,5k", "trials=10", "epochs=2")
    assert [e.sizes for e in study.experiments] == [(500, 5000)] * 2
    assert [e.trials for e in study.experiments] == [{"default": 10}] * 2
    assert [e.epochs for e in study.experiments] == [{"default": 2}] * 2


def test_settings_of_one_kind_of_experiment(tmp_path: Path) -> None:
    study = study_of(tmp_path, PLAIN, "preserved=0,L/2,L", "layers=3", "patience=5")
    assert study.experiments[0].preserved == (0, "L/2", "L")  # type: ignore[union-attr]
    assert (study.experiments[1].layers, study.experiments[1].patience) == ((3,), 5)  # type: ignore[union-attr]
    with pytest.raises(SpecError, match=r"mine\.yaml: no experiment of this study has the setting 'block_size'"):
        study_of(tmp_path, PLAIN, "block_size=2")


def test_settings_as_mappings(tmp_path: Path) -> None:
    study = study_of(tmp_path, PLAIN, "trials={500: 50, default: 3}", "protocol={epochs: 9, batch_size: 4}")
    assert study.experiments[0].trials == {"500": 50, "default": 3}
    assert (study.protocol.epochs, study.protocol.batch_size) == (9, 4)


def test_settings_of_the_protocol_reach_those_of_experiments(tmp_path: Path) -> None:
    content = {
        "tasks": "sst2",
        "protocol": {"epochs": 7},
        "experiments": [
            {"kind": "incremental"},
            {"kind": "incremental", "protocol": {"reinitialized_rate": 5}},
            {"kind": "incremental", "protocol": "paper"},
            {"kind": "incremental", "protocol": None},
        ],
    }
    study = study_of(tmp_path, content, "protocol.learning_rate=1e-4", "protocol.initialiser={std: 0.1}")
    protocols = [study.protocol, *(e.protocol for e in study.experiments if e.protocol)]
    assert [p.learning_rate for p in protocols] == [1e-4] * 3
    assert [p.initialiser.std for p in protocols] == [0.1] * 3
    assert [(p.epochs, p.reinitialized_rate) for p in protocols] == [(7, 1), (7, 5), (3, 1)]


def test_settings_choose_tasks(tmp_path: Path) -> None:
    own = {"name": "mine", "train": "a.csv", "validation": "b.csv", "text": "t", "label": "l"}
    content = {
        "tasks": ["SST-2", "cola", own],
        "experiments": [
            {"kind": "incremental"},
            {"kind": "incremental", "tasks": ["cola", "mine"]},
            {"kind": "incremental", "tasks": "sst2"},
        ],
    }
    study = study_of(tmp_path, content, "tasks=CoLA")
    assert study.task_names == ("cola",)
    assert [e.tasks for e in study.experiments] == [None, ("cola",)]
    study = study_of(tmp_path, content, "tasks=mine, rte")
    assert study.task_names == ("mine", "rte")
    assert isinstance(study.tasks[0], TaskFile)
    assert study.tasks[0].train == tmp_path / "a.csv"
    with pytest.raises(UnknownName, match=r"unknown task 'mien'\. Did you mean 'mine'"):
        study_of(tmp_path, content, "tasks=mien")
    content["experiments"] = content["experiments"][1:]
    with pytest.raises(SpecError, match=r"mine\.yaml: no experiment of this study is about rte"):
        study_of(tmp_path, content, "tasks=rte")


def test_settings_leave_the_given_data_alone() -> None:
    before = yaml.safe_dump(PLAIN)
    apply_settings(PLAIN, {"tasks": "cola", "trials": 3, "protocol.epochs": 2}, "here")
    assert yaml.safe_dump(PLAIN) == before


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("trial=3", "unknown setting 'trial'. Did you mean 'trials'"),
        ("protocol.learning_rat=1", r"Did you mean 'protocol.learning_rate'"),
        ("name=x", "unknown setting 'name'"),
        ("trials", "--set takes key=value, not 'trials'"),
        ("=3", "--set takes key=value"),
        ("trials=[", "--set trials.* is not valid YAML"),
        ("trials=!!float ''", "--set trials.* is not valid YAML"),
        ("trials=" + "9" * 5000, "--set trials.* is not valid YAML"),
        ("trials=many", "trials.default: Input should be a valid integer .given: 'many'"),
        ("trials=true", "trials.default: Input should be a valid integer"),
        ("tasks=5", "tasks.0.name: Input should be a valid string"),
        ("tasks=[{a: 1}]", "unknown key 'a'"),
        ("tasks=", "--set tasks= has no value"),
        ("protocol=papr", r"mine\.yaml: unknown protocol 'papr'. Did you mean 'paper'"),
        ("sizes=0", "0 is not a size"),
    ],
)
def test_settings_that_cannot_be(tmp_path: Path, pair: str, message: str) -> None:
    with pytest.raises(PalimpsestError, match=message):
        study_of(tmp_path, PLAIN, pair)


# Errors


def at(**fields: Any) -> dict[str, Any]:
    return {"tasks": "sst2", "experiments": [{"kind": "incremental"} | fields]}


def test_a_key_from_elsewhere_is_not_its_own_suggestion(tmp_path: Path) -> None:
    task = {"name": "x", "train": "a", "validation": "b", "text": "s", "label": "l", "title": "y"}
    with pytest.raises(UnknownName, match="unknown key 'title'") as found:
        study_of(tmp_path, PLAIN | {"tasks": [task]})
    assert "Did you mean 'title'" not in str(found.value)


def test_an_intervention_without_a_kind(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"variants\.a\.0: there is no 'kind' here, which says what it is"):
        study_of(tmp_path, at(kind="custom", variants={"a": [{"delete": {"layers": [1]}}]}))


@pytest.mark.parametrize(
    ("content", "near"),
    [
        (PLAIN | {"experimnts": []}, "experiments"),
        (at(preservd=3), "preserved"),
        (at(protocol={"learning_rat": 1}), "learning_rate"),
        (at(protocol={"initialiser": {"layernorm": "keep"}}), "layer_norm"),
        (at(protocol={"extends": "papr"}), "paper"),
        (PLAIN | {"protocol": {"poolin": "cls"}}, "pooling"),
        (PLAIN | {"figures": [{"kind": "incremental", "titel": "x"}]}, "title"),
        ({"tasks": [{"name": "x", "trian": "a"}], "experiments": [{"kind": "incremental"}]}, "train"),
        (at(kind="incremetal"), "incremental"),
        (at(kind="custom", variants={"a": [{"kind": "reinitialise", "layers": [1]}]}), "reinitialize"),
        (at(kind="custom", variants={"a": [{"kind": "permute", "ordr": [1]}]}), "order"),
    ],
)
def test_did_you_mean(tmp_path: Path, content: Any, near: str) -> None:
    with pytest.raises(UnknownName, match=rf"(?s)(?=.*Did you mean .*'{near}')(?=.*mine\.yaml)"):
        study_of(tmp_path, content)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"trials": True}, "trials.default: Input should be a valid integer"),
        ({"trials": -1}, "greater than or equal to 1"),
        ({"trials": {}}, "trials: "),
        ({"sizes": []}, "sizes: "),
        ({"preserved": [13.5]}, "13.5 is not a layer: give numbers, L, L/2, or all"),
        ({"preserved": [True]}, "True is not a layer"),
        ({"preserved": "half"}, "'half' is not a layer"),
        ({"preserved": []}, "preserved"),
        ({"protocol": {"learning_rate": True}}, "learning_rate: a number is needed"),
        ({"protocol": {"learning_rate": float("nan")}}, "learning_rate: Input should be a finite number"),
        ({"protocol": {"learning_rate": -1}}, "learning_rate: Input should be greater than 0"),
        ({"protocol": {"epochs": True}}, "epochs: Input should be a valid integer"),
        ({"protocol": {"weight_decay": 0.1}}, "weight_decay needs optimizer: adamw"),
        ({"protocol": {"max_length": 4}}, "max_length"),
        ({"protocol": 5}, "a protocol is a name or a mapping, not int"),
        ({"hold": ["drop"]}, "hold.0"),
        ({"kind": "custom", "variants": {}}, "variants"),
        ({"kind": "custom", "variants": {"a": [{"kind": "permute", "order": [1, 3]}]}}, "is not a permutation of 1..2"),
        ({"kind": "custom", "variants": {"a": [{"kind": "reinitialize", "layers": [0]}]}}, "layers.0"),
        ({"kind": "heads", "heads": [0]}, "heads"),
        ({"kind": "localized", "mode": "both"}, "mode"),
        ({"label": 10**6000}, "label"),
    ],
)
def test_values_that_cannot_be(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=rf"(?s)mine\.yaml: .*{message}") as caught:
        read_data(tmp_path, at(**fields))
    assert "experiments: Tuple should have at least" not in str(caught.value)


def read_data(folder: Path, data: Any) -> Study:
    return Study.parse({"name": "mine"} | data, str(folder / "mine.yaml"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a study is a mapping"),
        ("[]", "a study is a mapping"),
        ("just words", "a study is a mapping"),
        ("name: x\ntasks: [sst2\nexperiments: []", "line 3 is not valid YAML"),
        ("name: x\n\ttasks: y", "line 2 is not valid YAML"),
        ("a: !!python/object/apply:os.system [echo]", "line 1 is not valid YAML: could not determine a constructor"),
        ("a: !!python/name:os.system", "line 1 is not valid YAML"),
        ("a: !!float ''", "is not valid YAML"),
        ("a: !!int ''", "is not valid YAML"),
        ("a: !!bool maybe", "is not valid YAML"),
        ("a: !!timestamp never", "is not valid YAML"),
        ("a: 2020-13-45", "is not valid YAML"),
        ("a: \x07", "is not valid YAML"),
        ("? [a]\n: 1", "line 1 is not valid YAML"),
        ("a: " + "[" * 5000, "is not valid YAML"),
        ("a: " + "[" * 60 + "]" * 60, "nested too deeply"),
        ("a: &a [*a]", "refers to itself"),
        ("a: &a {b: *a}", "refers to itself"),
        (
            "a: &a [x, x, x, x, x, x, x, x, x]\n"
            + "".join(f"{b}: &{b} [{', '.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
            "much too large",
        ),
    ],
)
def test_hostile_yaml(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SpecError, match=rf"mine\.yaml.*{message}"):
        study_of(tmp_path, text)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"none\.yaml cannot be read"):
        read(tmp_path / "none.yaml")
    with pytest.raises(SpecError, match="cannot be read"):
        read(tmp_path)
    (tmp_path / "latin.yaml").write_bytes("name: é".encode("latin-1"))
    with pytest.raises(SpecError, match=r"latin\.yaml is not UTF-8 text"):
        read(tmp_path / "latin.yaml")


def test_the_name_is_that_of_the_file(tmp_path: Path) -> None:
    assert study_of(tmp_path, PLAIN).name == "mine"
    assert study_of(tmp_path, PLAIN | {"name": "other"}).name == "other"
    assert read(write(tmp_path, PLAIN), name="given").name == "given"


WORDS = """all L L/2 5k 10% sst2 cola paper incremental probing custom heads permute reinitialize keep mean preserved"""
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 20), st.integers(), st.floats(), st.text(max_size=6), st.dates(),
    st.binary(max_size=3), st.sampled_from(WORDS.split()),
)  # fmt: skip
KEYS = """name tasks experiments kind protocol sizes trials epochs preserved layers heads variants figures options
    extends initialiser learning_rate std hold mode label default train text validation order encoder labels"""
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS.split()) | SCALARS, inner, max_size=4)
    ),
    max_leaves=8,
)


@settings(
    max_examples=max(300, settings.default.max_examples),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(content=ANYTHING, seed=st.integers(0, 2**32))
def test_whatever_a_file_says_ends_in_a_study_or_a_readable_error(tmp_path: Path, content: Any, seed: int) -> None:
    """A valid study in which something, somewhere, is replaced by anything."""
    whole: dict[str, Any] = {
        "tasks": ["sst2", {"name": "own", "train": "a.csv", "validation": "b.csv", "text": "t", "label": "l"}],
        "protocol": {"extends": "paper", "initialiser": {"std": 0.1}},
        "experiments": [
            {"kind": "incremental", "preserved": [0, "L"], "sizes": [500], "trials": {500: 2, "default": 1}},
            {"kind": "custom", "variants": {"a": [{"kind": "reinitialize", "layers": [1]}]}},
            {"kind": "heads", "layers": [1], "heads": [2]},
        ],
        "figures": [{"kind": "incremental", "options": {"a": 1}}],
    }
    rng = random.Random(seed)
    place: Any = whole
    while True:
        key = rng.choice(list(place) if isinstance(place, dict) else range(len(place)))
        if not isinstance(place[key], dict | list) or not place[key] or rng.random() < 0.3:
            break
        place = place[key]
    place[key] = content
    message = complaint(tmp_path, whole)
    assert message is None or "mine.yaml" in message


def complaint(folder: Path, content: Any, *pairs: str) -> str | None:
    try:
        study_of(folder, content, *pairs)
    except PalimpsestError as error:
        return str(error)
    return None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    key=st.sampled_from(
        ["tasks", "sizes", "trials", "protocol", "protocol.epochs", "protocol.initialiser", "hold", "encoder"]
    ),
    text=st.text(max_size=12) | ANYTHING.map(lambda v: yaml.safe_dump(v, default_flow_style=True)),
)
def test_whatever_a_setting_says_ends_in_a_study_or_a_readable_error(tmp_path: Path, key: str, text: str) -> None:
    assert complaint(tmp_path, PLAIN, f"{key}={text}") != ""
