import pytest
import spacy
from thinc.api import registry

from spacy_attention.layers.hf_shim import CheckpointShim
from spacy_attention.training.thaw import create_thaw

from ..helpers import BACKBONE, NER, TEXTCAT, initialize, make_examples, torch_shims, train, weights_of


def backbone_of(nlp, name: str = BACKBONE) -> CheckpointShim:
    (shim,) = [shim for shim in torch_shims(nlp.get_pipe(name).model) if isinstance(shim, CheckpointShim)]
    return shim


def learning(nlp, name: str = BACKBONE) -> set[str]:
    """Which parts of the backbone learn, but for the pooler, which nothing reads."""
    names = [key for key, parameter in backbone_of(nlp, name).module.named_parameters() if parameter.requires_grad]
    return {"0" if ".layer.0." in key else "1" if ".layer.1." in key else "embeddings" for key in names if "pooler" not in key}


def test_a_table_is_followed(make_nlp):
    nlp = make_nlp()
    initialize(nlp)
    thaw = create_thaw({"10": 0, "1": 2, "3": 1, "5": "embeddings"})
    found = []
    for step in (0, 1, 2, 3, 5, 9, 10, 99):
        thaw(nlp, {"step": step, "epoch": 0})
        found.append(learning(nlp))
    everything = {"embeddings", "0", "1"}
    assert found == [everything, set(), set(), {"1"}, {"0", "1"}, {"0", "1"}, everything, everything]


def test_a_schedule_is_followed(make_nlp):
    nlp = make_nlp()
    initialize(nlp)
    block = {"@callbacks": "spacy-attention.thaw.v1"}
    block["frozen_layers"] = {"@schedules": "compounding.v1", "start": 2.0, "stop": 0.1, "compound": 0.5}
    thaw = spacy.registry.resolve({"thaw": block})["thaw"]
    found = []
    for step in range(4):
        thaw(nlp, {"step": step, "epoch": 0})
        found.append(learning(nlp))
    # 2, 1, 0.5 and 0.25
    assert found == [set(), {"1"}, {"embeddings", "0", "1"}, {"embeddings", "0", "1"}]


def test_the_backbone_of_a_standalone_component_thaws_too(make_nlp):
    nlp = make_nlp()
    initialize(nlp)
    nlp.replace_listeners(BACKBONE, TEXTCAT, ["model.tok2vec"])
    create_thaw({"0": 2})(nlp, {"step": 0, "epoch": 0})
    assert learning(nlp, TEXTCAT) == learning(nlp) == set()


def test_training_moves_what_has_thawed(make_nlp):
    nlp = make_nlp()
    optimizer = registry.optimizers.get("spacy-attention.AdamW.v1")(0.01)
    initialize(nlp)
    thaw, examples = create_thaw({"0": 2, "1": 1, "2": 0}), make_examples(nlp)
    for step, expected in enumerate([set(), {".layer.1."}, {".layer.1.", ".layer.0.", ".embeddings."}]):
        before = weights_of(nlp)
        thaw(nlp, {"step": step, "epoch": 0})
        train(nlp, examples, optimizer, 1)
        moved = {name for name, weight in weights_of(nlp).items() if (weight != before[name]).any()}
        parts = (".layer.1.", ".layer.0.", ".embeddings.")
        assert {part for part in parts if any(part in name for name in moved if name.startswith(BACKBONE))} == expected
        assert any(name.startswith(NER) for name in moved)


def test_a_loaded_pipeline_freezes_what_its_config_says(make_nlp, tmp_path):
    nlp = make_nlp()
    nlp.config["components"][BACKBONE]["model"]["frozen_layers"] = "embeddings"
    initialize(nlp)
    create_thaw({"0": 2})(nlp, {"step": 0, "epoch": 0})
    nlp.to_disk(tmp_path)
    assert learning(spacy.load(tmp_path)) == {"0", "1"}


@pytest.mark.parametrize("table", [{}, {"first": 1}, {"-1": 0}, {"0.5": 0}])
def test_a_table_needs_steps(table):
    with pytest.raises(ValueError, match="E603"):
        create_thaw(table)


def test_a_mistake_in_the_table_shows_at_once(make_nlp):
    nlp = make_nlp()
    initialize(nlp)
    with pytest.raises(ValueError, match=r"E106\].*'frozen_layers'.*at most 2.*found 3"):
        create_thaw({"0": 2, "1000": 3})(nlp, {"step": 0, "epoch": 0})


def test_a_pipeline_without_backbone():
    with pytest.raises(ValueError, match=r"E604\].*sentencizer"):
        nlp = spacy.blank("en")
        nlp.add_pipe("sentencizer")
        create_thaw({"0": 2})(nlp, {"step": 0, "epoch": 0})
