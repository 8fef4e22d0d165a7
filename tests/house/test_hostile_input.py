"""Data that comes from others is never executed: no module unpickles, evaluates, or passes text to a shell."""

import ast

from tests.house.source import LAYERS, sources

EXECUTING_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
EXECUTING_CALLS = {"eval", "exec", "os.system", "os.popen", "yaml.load", "yaml.unsafe_load"}


def test_no_data_is_executed() -> None:
    wrong = [
        f"{source.place(statement)} imports {name}"
        for source in sources(*LAYERS)
        for name, statement in source.imports()
        if name.split(".")[0] in EXECUTING_MODULES
    ]
    for source in sources(*LAYERS):
        calls = [node for node in source.nodes if isinstance(node, ast.Call)]
        wrong += [
            f"{source.place(call)} executes data"
            for call in calls
            if ast.unparse(call.func) in EXECUTING_CALLS
            if not any(ast.unparse(each.value) == "yaml.BaseLoader" for each in call.keywords)  # It creates only texts.
        ]
        wrong += [
            f"{source.place(call)} uses a shell"
            for call in calls
            if any(each.arg == "shell" and ast.unparse(each.value) != "False" for each in call.keywords)
        ]
    assert not wrong, "\n".join(wrong)
