"""An ONNX graph in the making: nodes in order, constants, and names that are never taken twice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

ROWS = "n_rows"  # the size of every first axis that is free


@dataclass(eq=False)
class Graph:
    """Adds nodes of ONNX's own operators; every one of them gives one value, known by its name.

    taken : names that others have given already: those of the inputs, which are a table's columns
    """

    taken: set[str] = field(default_factory=set)
    _nodes: list[NodeProto] = field(default_factory=list)
    _constants: list[TensorProto] = field(default_factory=list)

    def add(self, operator: str, *inputs: str, name: str | None = None, n_outputs: int = 1, **attributes: Any) -> str:
        """Add a node; returns the name of its (last) value, which is `name`, or what `free` makes of it, where given.

        n_outputs : values of the operator, all but the last of them unused
        """
        name = self.free(name or f"{operator.lower()}_{len(self._nodes)}")
        unused = [self.free(f"{name}_unused_{number}") for number in range(n_outputs - 1)]
        self._nodes.append(helper.make_node(operator, list(inputs), [*unused, name], name=f"make_{name}", **attributes))
        return name

    def constant(self, values: NDArray[Any] | list[Any]) -> str:
        """Add an array that the graph holds; returns its name."""
        name = self.free(f"constant_{len(self._constants)}")
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def free(self, name: str) -> str:
        """The name, with underscores behind it as long as it is taken; now it is."""
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def cast(self, value: str, dtype: Any) -> str:
        """The value in another type."""
        return self.add("Cast", value, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def finished(self, name: str, inputs: list[ValueInfoProto], outputs: list[ValueInfoProto]) -> GraphProto:
        """The graph, of these inputs and outputs."""
        return helper.make_graph(self._nodes, name, inputs, outputs, self._constants)


def values_of(name: str, dtype: Any, shape: list[str | int]) -> ValueInfoProto:
    """An input or output of a graph."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
