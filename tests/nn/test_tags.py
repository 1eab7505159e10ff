import numpy
import pytest

from spacy_attention.nn.tags import allowed_tags, n_states, n_tags, tag_names


@pytest.mark.parametrize("labels", [[], ["A"], ["B", "A", "C-D"]])
def test_one_name_per_column(labels):
    names = tag_names(labels)
    assert len(names) == len(set(names)) == n_tags(len(labels))
    assert n_states(len(labels)) == len(labels) + 1


def test_order_of_the_columns():
    assert tag_names(["X", "Y"]) == ["O", "B-X", "B-Y", "I-X", "I-Y", "L-X", "L-Y", "U-X", "U-Y"]


def test_allowed_by_hand():
    columns = {name: i for i, name in enumerate(tag_names(["X"]))}
    found = allowed_tags(["B-X", None, "L-X", "-", "O"], columns)
    expected = numpy.zeros((5, 5), dtype=bool)
    expected[0, 1] = expected[2, 3] = expected[4, 0] = True
    expected[[1, 3]] = True
    assert (found == expected).all()


def test_unknown_tag():
    with pytest.raises(KeyError, match="U-Z"):
        allowed_tags(["U-Z"], {"O": 0})
