"""What a lying engine changes, adds or withholds. lies.py has the table of lies."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "engine" / "python"))

from kvscope.wire import f32, i32, pool, read_f32, read_i32, unpool  # noqa: E402

DROP: list = []
UNKNOWN_ID = 9999
Change = Callable[..., "list | None"]
"""(talk, message): changes the message in place, or returns the messages to pass on instead."""


# What changes of arrays and fields have in common.


def put(name: str, value) -> Change:
    """A field of the message has this value."""

    def change(talk, message: dict) -> None:
        message[name] = value(message) if callable(value) else value

    return change


def rows(name: str, width: int, edit: Callable[[np.ndarray], np.ndarray]) -> Change:
    """A table of int32."""

    def change(talk, event: dict) -> None:
        event[name] = i32(edit(read_i32(event, name).reshape(-1, width).copy()))

    return change


def numbers(name: str, edit: Callable[[np.ndarray], np.ndarray]) -> Change:
    """An array of float32, unless it is empty."""

    def change(talk, event: dict) -> None:
        if name in event and event[name]:
            event[name] = f32(edit(read_f32(event, name).copy()))

    return change


def withhold(talk, message: dict) -> list:
    return DROP


def is_new(event: dict) -> bool:
    """A step with a new token."""
    return event["type"] == "step" and len(event["ids"]) > 0


def done(message: dict, **fields) -> dict:
    return {"type": "done", "id": message["id"], **fields}


# Lifetimes, scores and contests.


def of_head(layer: int, head: int, edit: Callable[[np.ndarray], np.ndarray]) -> Change:
    """Lifetimes of one head."""

    def apply(table: np.ndarray) -> np.ndarray:
        mine = (table[:, 0] == layer) & (table[:, 1] == head)
        return np.concatenate([table[~mine], edit(table[mine])])

    return rows("lifetimes", 4, apply)


def later(table: np.ndarray) -> np.ndarray:
    table[:, 3] += 1
    return table


def twice(table: np.ndarray) -> np.ndarray:
    again = table[:1].copy()
    again[:, 3] += 1
    return np.concatenate([table, again])


def again(talk, event: dict) -> None:
    """What left in the step before leaves once more."""
    before = talk.kept.get(event["id"], b"")
    talk.kept[event["id"]] = event["lifetimes"]
    event["lifetimes"] += i32(later(read_i32({"lifetimes": before}, "lifetimes").reshape(-1, 4)[:1].copy()))


def not_seen(table: np.ndarray) -> np.ndarray:
    table[:, 3] = table[:, 2]
    return table


def a_sink_leaves(talk, event: dict) -> None:
    if is_new(event) and talk.count_of(str(event["id"])) == 1:
        event["lifetimes"] += i32([[0, 0, 0, event["n_tokens"]]])


def no_such_layer(table: np.ndarray) -> np.ndarray:
    table[:1, 0] = 99
    return table


def one_nan(values: np.ndarray) -> np.ndarray:
    values[0] = np.nan
    return values


def other_loser(table: np.ndarray) -> np.ndarray:
    """The one of the two that stayed."""
    table[:, 5] = np.where(table[:, 5] == table[:, 3], table[:, 4], table[:, 3])
    return table


SCORED = {
    "name": "lie.scored",
    "title": "A policy of the lying engine",
    "definition": "It declares running top-k and evicts by position.",
    "budget": True,
    "rule": "top_k",
    "prompt": "sparse",
    "parameters": [
        {"name": n, "kind": "tokens", "unit": "tokens", "default": d, "min": 1, "max": 4096, "definition": "Tokens."}
        for n, d in (("budget", 40), ("sinks", 4), ("window", 16))
    ],
}


def declares_scored(talk, event: dict) -> None:
    event["policies"] = [*event.get("policies", []), SCORED]


def run_as_streaming(talk, message: dict) -> None:
    talk.kept[message["id"]] = message.get("policy", "")
    if talk.kept[message["id"]].startswith("lie.scored"):
        message["policy"] = "streaming:sinks=4,window=16"


def streaming_as_scored(talk, event: dict) -> None:
    if talk.kept.get(event["id"], "").startswith("lie.scored"):
        event["policy"] = "lie.scored:budget=40,sinks=4,window=16"


def any_scores(talk, event: dict) -> None:
    if not talk.kept.get(event["id"], "").startswith("lie.scored"):
        return
    first = 0 if not is_new(event) else event["n_tokens"] - 1
    tokens = np.arange(first, event["n_tokens"])
    shape = talk.kept["layers"], talk.kept["heads"], len(tokens)
    index = np.stack(np.broadcast_arrays(*np.ogrid[: shape[0], : shape[1]], tokens[:, None, None]), axis=-1)
    event["score_index"] = i32(index.reshape(-1, 3))
    event["score_value"] = f32(np.sin(index.reshape(-1, 3) @ [5.0, 3.0, 1.7]))


def note_shape(talk, event: dict) -> None:
    if "model" in event:
        talk.kept.update(layers=event["model"]["n_layers"], heads=event["model"]["n_kv_heads"])
    if "policies" in event:  # they replace those of the greeting
        declares_scored(talk, event)


# Steps, tokens and their order.


def new_token(change: Change) -> Change:
    """Of steps with a new token alone."""
    return lambda talk, event: change(talk, event) if is_new(event) else None


def nth_new_token(n: int, change: Change) -> Change:
    """Of the n-th new token of each run alone."""

    def apply(talk, event: dict):
        if is_new(event) and talk.count_of(f"step {event['id']}") == n:
            return change(talk, event)
        return None

    return apply


def other_case(talk, event: dict) -> None:
    event["pieces"] = pool([piece.swapcase() for piece in unpool(event["pieces"])])


def piece_is_missing(talk, event: dict) -> None:
    event["pieces"] = pool(unpool(event["pieces"])[1:])


def step_before_start(talk, event: dict) -> list:
    if event["type"] == "started":
        talk.kept[event["id"]] = event
        return DROP
    first = talk.kept.pop(event["id"], None)
    return [event, first] if first else [event]


def prompt_is_shorter(talk, event: dict) -> None:
    ids, pieces = read_i32(event, "ids"), unpool(event["pieces"])
    event.update(prompt_len=len(ids) - 1, ids=i32(ids[:-1]), pieces=pool(pieces[:-1]))


def first_id_differs(talk, event: dict) -> None:
    ids = read_i32(event, "ids").copy()
    ids[0] = (ids[0] + 1) % 200
    event["ids"] = i32(ids)


def other_order(talk, event: dict) -> None:
    """The same policy, its parameters the other way round; one without several in capital letters of nothing."""
    name, colon, parameters = event["policy"].partition(":")
    turned = ",".join(reversed(parameters.split(",")))
    event["policy"] = f"{name}:{turned}" if colon else f"{name}:"


def one_token_less(talk, message: dict) -> None:
    message["max_tokens"] -= 1


def one_position_more(talk, event: dict) -> None:
    event["n_positions"] += 1


def more_steps(talk, event: dict) -> None:
    if "timings" in event:
        event["timings"]["decode_steps"] += 1


def other_text(talk, event: dict) -> None:
    if "timings" in event:
        event["text"] = "An answer. " + event["text"]


# The end of requests.


def two_dones(talk, event: dict) -> list:
    return [event, event] if "timings" in event else [event]


def run_has_no_done(talk, event: dict) -> list:
    return DROP if "timings" in event else [event]


def hold_step(talk, event: dict) -> list:
    """Each step waits for the next one."""
    before = talk.kept.get(event["id"])
    talk.kept[event["id"]] = event
    return [before] if before else DROP


def done_before_step(talk, event: dict) -> list:
    last = talk.kept.pop(event["id"], None)
    return [event, last] if last else [event]


def log_after_end(talk, event: dict) -> list:
    return [event, {"type": "log", "id": event["id"], "text": "one thing more"}]


def also_of_unknown_id(talk, event: dict) -> list:
    return [event, {**event, "id": UNKNOWN_ID}]


def no_id(talk, event: dict) -> None:
    del event["id"]


# Cancel, seeds, errors.


def completes(talk, event: dict) -> None:
    if event.get("status") == "cancelled":
        event["status"] = "complete"


def answers_cancel(talk, message: dict) -> list:
    talk.say(done(message))
    return [message]


# Several runs at once.


def load_says(name: str, value) -> Change:
    """The answer to a load has this field, as the greeting has."""
    return lambda talk, event: put(name, value)(talk, event) if talk.asked(event).get("type") == "load" else None


def others_at_work(talk, message: dict) -> list[int]:
    """The ids of runs beside the message's own that have no end yet."""
    ended = talk.kept.setdefault("ended", set())
    return [i for i, m in talk.requests.items() if m["type"] == "run" and i != message["id"] and i not in ended]


def beside_another(change: Change) -> Change:
    """While another run is at work."""
    return lambda talk, event: change(talk, event) if others_at_work(talk, event) else None


def other_ids(talk, event: dict) -> None:
    event["ids"] = i32(np.maximum(read_i32(event, "ids") - 1, 0))


def is_over(talk, event: dict) -> None:
    talk.kept.setdefault("ended", set()).add(event.get("id"))


def two_at_once(talk, event: dict) -> None:
    """Of the end of a request."""
    is_over(talk, event)
    load_says("runs_at_once", 2)(talk, event)


def cancels_all(talk, message: dict) -> list:
    return [message, *({**message, "target": i} for i in others_at_work(talk, message))]


def other_seed(talk, message: dict) -> None:
    message["sampling"]["seed"] = talk.count_of("run")


def random_if_greedy(talk, message: dict) -> None:
    if not message["sampling"].get("temperature"):
        message["sampling"].update(temperature=1.5, seed=talk.count_of("run"))


def two_lines(event: dict) -> str:
    return event["found"] + "\nand a second line"


def any_request_is_fine(talk, message: dict) -> list:
    talk.say(done(message))
    return DROP


def unknown_policy_is_fine(talk, message: dict) -> None:
    if "no-such-policy" in message.get("policy", ""):
        message["policy"] = "full"


def dies_of_unknown_policy(talk, message: dict) -> None:
    if "no-such-policy" in message.get("policy", ""):
        talk.engine.kill()


def serves_nothing_after_error(talk, message: dict) -> list | None:
    if "no-such-policy" in message.get("policy", ""):
        talk.kept["broken"] = True
        return [message]
    return DROP if talk.kept.get("broken") else [message]


# Load and greeting.


def of_model(edit: Callable[[dict], None]) -> Change:
    def change(talk, event: dict) -> None:
        if "model" in event:
            edit(event["model"])

    return change


def one_layer_more(model: dict) -> None:
    model["n_layers"] += 1


def heads_do_not_divide(model: dict) -> None:
    model["n_kv_heads"] -= 1


def other_weights(talk, event: dict) -> None:
    if "model" in event:
        event["model"]["weights_hash"] = str(talk.count_of("load"))


def loads_anything(talk, message: dict) -> list:
    if "no-such" not in message["model"]:
        return [message]
    talk.say(done(message, model={}, load_s=0.0))
    return DROP


def shadows(talk, event: dict) -> None:
    event["policies"] = [{**SCORED, "name": "streaming"}]


def steals_a_title(talk, event: dict) -> None:
    event["policies"] = [{**SCORED, "title": "StreamingLLM"}]


# Oracle, attention, score.


def of_final(change: Change) -> Change:
    """Of the oracle's last event alone."""
    return lambda talk, event: change(talk, event) if event["final"] else None


def one_mass(name: str, edit: Callable[[float], float]) -> Change:
    """The first finite number of the masses in the middle of the array."""

    def apply(values: np.ndarray) -> np.ndarray:
        half = len(values) // 2
        at = half + int(np.flatnonzero(np.isfinite(values[half:]))[0])
        values[at] = edit(values[at])
        return values

    return of_final(numbers(name, apply))


def other_recall(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0.5, values - 0.4, values + 0.4).astype(np.float32)


def more_kept(values: np.ndarray) -> np.ndarray:
    values[1] = min(1.0, values[1] + 0.1) if values[1] < 0.9 else values[1] - 0.1
    return values


# Services.


def refuses(talk, message: dict) -> list:
    talk.say({"type": "error", "id": message["id"], "code": 1, "found": "not here", "file": "request"})
    return DROP


def hides_attention(talk, event: dict) -> None:
    all_of_them = ("run", "score", "attention", "gate_scores", "doctor", "policy", "oracle", "output_error")
    if event["type"] == "hello" or "serves" in event:
        event["serves"] = [word for word in event.get("serves", all_of_them) if word != "attention"]


def note_policy(talk, message: dict) -> list:
    talk.kept[message["target"]] = message["policy"]
    return DROP


def say_policy_changed(talk, event: dict) -> list:
    asked = talk.kept.pop(event["id"], None)
    if asked is None:
        return [event]
    written = dict(pair.split("=") for pair in asked.partition(":")[2].split(","))
    text = talk.kept["text"]
    for name, value in written.items():
        parts = [
            f"{name}={value}" if part.startswith(name + "=") else part for part in text.partition(":")[2].split(",")
        ]
        text = text.partition(":")[0] + ":" + ",".join(parts)
    return [{"type": "policy", "id": event["id"], "q": event["n_tokens"], "policy": text}, event]


def note_text(talk, event: dict) -> None:
    talk.kept["text"] = event["policy"]


def bad_exit(talk, message: dict) -> None:
    talk.kept["code"] = 7
