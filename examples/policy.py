"""Rules in code: the first one of a priority that matches counts."""

from alhena import Agent, Rule
from alhena.testing import Call, TestModel

rules = [
    Rule.deny("run_shell_command", when=lambda args: len(args["command"]) > 200),
    Rule.allow("run_shell_command", command_prefix=["git log", "git status", "echo"]),
    Rule.deny("run_shell_command", message="Only git log, git status and echo."),
]
model = TestModel(
    [Call("run_shell_command", command="echo hi"), Call("run_shell_command", command="rm -r x")],
    "One of them ran.",
)
result = Agent(model, policy=rules).run_sync("Try two commands.")
print(result.output)
print([(call.args["command"], call.reason) for call in result.denied])
