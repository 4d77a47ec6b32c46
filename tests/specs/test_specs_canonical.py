"""Identity depends on what a spec says, not on how it was made or what was asked of it before."""

from __future__ import annotations

from palimpsest.specs.protocol import PROTOCOLS, Protocol
from palimpsest.specs.trial import Trial


def test_a_default_protocol_by_name_is_the_default_protocol() -> None:
    bare = Trial(encoder="pocket", task="sst2")
    named = Trial(encoder="pocket", task="sst2", protocol=PROTOCOLS["paper"])
    described = Trial(encoder="pocket", task="sst2", protocol=Protocol(name="mine", summary="words"))
    assert bare.identity == named.identity == described.identity


def test_a_copy_does_not_inherit_the_identity_of_its_original() -> None:
    protocol = Protocol()
    before = protocol.identity
    longer = protocol.model_copy(update={"epochs": 9})
    assert longer.canonical == {"epochs": 9}
    assert longer.identity == Protocol(epochs=9).identity != before
