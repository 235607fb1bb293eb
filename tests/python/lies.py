"""The lies of lying_engine.py, in one table."""

from __future__ import annotations

from dataclasses import dataclass, field

import lie_changes as change
import numpy as np

from kvscope.wire import i32


@dataclass
class Lie:
    """sentence: what the engine does wrong. told: a regular expression of the line that must report it. events, asked:
    by type of message, the change of an event or of a request: in place, or the messages to pass on instead. waits: the
    lie is reported when a time limit is over."""

    sentence: str
    told: str
    events: dict[str, change.Change] = field(default_factory=dict)
    asked: dict[str, change.Change] = field(default_factory=dict)
    waits: bool = False


LIES = {
    "none": Lie("Nothing is changed.", ""),
    # Lifetimes, scores and contests.
    "late-eviction": Lie(
        "One head's tokens leave one query later than they are reported to.",
        r"lifetimes: \S+: lifetimes: token \d+ in layer 1 head 0",
        {"step": change.of_head(1, 0, change.later)},
    ),
    "hidden-evictions": Lie(
        "The evictions of one head are not reported.",
        r"lifetimes: \S+: lifetimes: token \d+ in layer 0 head 1 stays",
        {"step": change.of_head(0, 1, lambda table: table[:0])},
    ),
    "evicted-again": Lie(
        "A token that was evicted is evicted again, a step later.",
        "another evict_at of token",
        {"step": change.again},
    ),
    "evicted-twice": Lie(
        "A token is evicted twice, at two queries.",
        "token .* is evicted twice",
        {"step": change.rows("lifetimes", 4, change.twice)},
    ),
    "evicted-unseen": Lie(
        "A token leaves before its own query has seen it.",
        r"evict_at \d+ of token",
        {"step": change.rows("lifetimes", 4, change.not_seen)},
    ),
    "evicted-sink": Lie(
        "A sink is evicted.",
        "lifetimes: token 0 in layer 0 head 0 is evicted",
        {"step": change.a_sink_leaves},
    ),
    "unknown-layer": Lie(
        "A token leaves a layer that the model does not have.",
        "lifetimes: layer 99",
        {"step": change.rows("lifetimes", 4, change.no_such_layer)},
    ),
    "other-scores": Lie(
        "The scores that are reported are not those that decided.",
        r"lifetimes: (top-k|threshold): lifetimes: token .*by the recorded scores",
        {"step": change.numbers("score_value", np.negative)},
    ),
    "nan-score": Lie(
        "A score is NaN.", "score of token .* is NaN", {"step": change.numbers("score_value", change.one_nan)}
    ),
    "other-loser": Lie(
        "A contest names the token that stayed as the one that left.",
        "contests: at query",
        {"step": change.rows("contests", 8, change.other_loser)},
    ),
    "other-rule": Lie(
        "A policy is declared with the rule top_k, and another rule decides.",
        r"lifetimes: lie\.scored: lifetimes: token .*by the recorded scores",
        {
            "hello": change.declares_scored,
            "started": change.streaming_as_scored,
            "step": change.any_scores,
            "done": change.note_shape,
        },
        {"run": change.run_as_streaming},
    ),
    # Steps, tokens and their order.
    "positive-logprob": Lie(
        "A log-probability is above 0.",
        "logprobs: .*0 or less",
        {"step": change.new_token(change.numbers("logprobs", np.abs))},
    ),
    "no-logprob": Lie(
        "A new token has no log-probability.",
        r"no log-probability \(NaN\)",
        {"step": change.nth_new_token(3, change.numbers("logprobs", change.one_nan))},
    ),
    "missing-piece": Lie(
        "A token has no piece.",
        "pieces: 0 pieces; expected 1, one per token",
        {"step": change.new_token(change.piece_is_missing)},
    ),
    "other-pieces": Lie(
        "The pieces of the prompt are another text.", "pieces of the prompt are", {"started": change.other_case}
    ),
    "other-answer-pieces": Lie(
        "The pieces of the answer are another text.",
        "text is not that of the pieces",
        {"step": change.new_token(change.other_case)},
    ),
    "skipped-step": Lie(
        "A step is left out.", r"step: (n_tokens|log-prob)", {"step": change.nth_new_token(2, change.withhold)}
    ),
    "backward-step": Lie(
        "The facts of a step are complete up to a position that is too early.",
        r"n_tokens \d+ with \d+ tokens|n_tokens: 1;",
        {"step": change.nth_new_token(2, change.put("n_tokens", 1))},
    ),
    "step-before-start": Lie(
        "The first step comes before started.",
        "step before started",
        {"started": change.step_before_start, "step": change.step_before_start},
    ),
    "started-twice": Lie("A run starts twice.", "second start", {"started": lambda talk, event: [event, event]}),
    "negative-seconds": Lie(
        "A step takes less than no time.", "seconds: -1", {"step": change.nth_new_token(2, change.put("seconds", -1.0))}
    ),
    "short-prompt": Lie(
        "The prompt is one token shorter than it is.",
        r"(pieces of the prompt are|ids are not those|n_positions|log-prob)",
        {"started": change.prompt_is_shorter},
    ),
    "wrong-prompt-len": Lie(
        "prompt_len is not the number of ids.",
        "as prompt_len says",
        {"started": change.put("prompt_len", lambda event: event["prompt_len"] - 1)},
    ),
    "other-prompt": Lie(
        "The ids of the prompt are not those that were asked with.",
        "ids are not those of the request",
        {"started": change.first_id_differs},
    ),
    "unknown-token": Lie(
        "A new token is outside the vocabulary.",
        "token id 90000000",
        {"step": change.nth_new_token(2, change.put("ids", i32([90_000_000])))},
    ),
    "policy-not-canonical": Lie(
        "The policy of a run is not written canonically.", "its canonical text is", {"started": change.other_order}
    ),
    "other-policy": Lie(
        "The run is reported under another policy.",
        "started: the policy full; the request has",
        {"started": change.put("policy", "full")},
    ),
    "short-answer": Lie(
        "The run ends one token early, and is complete.",
        r"complete with \d+ new tokens",
        {"started": change.one_position_more},
        {"run": lambda talk, message: change.one_token_less(talk, message) if message["max_tokens"] > 1 else None},
    ),
    "more-steps": Lie("The timings count a step too many.", "decode steps in its timings", {"done": change.more_steps}),
    "other-text": Lie(
        "The text is not that of the tokens.", "text is not that of the pieces", {"done": change.other_text}
    ),
    # The end of requests, and ids.
    "two-dones": Lie("A run is done twice.", r"second event done of request \d+ \(run\)", {"done": change.two_dones}),
    "no-done": Lie("A run is never done.", r"\(run\) has no done", {"done": change.run_has_no_done}, waits=True),
    "early-done": Lie(
        "A run is done before its last step.",
        r"(decode steps in its timings|done without a step)",
        {"step": change.hold_step, "done": change.done_before_step},
    ),
    "late-log": Lie(
        "An event comes after the end of its request.", "event log of .* had ended", {"done": change.log_after_end}
    ),
    "unknown-id": Lie(
        "An event has an id that was never sent.",
        "unknown id 9999",
        {"step": change.nth_new_token(2, change.also_of_unknown_id)},
    ),
    "no-id": Lie("A step has no id.", "event step without an id", {"step": change.nth_new_token(2, change.no_id)}),
    # Cancel and seeds.
    "ignores-cancel": Lie(
        "A cancel is not obeyed.", "cancel: in the middle.* went on to its end", asked={"cancel": change.withhold}
    ),
    "cancelled-is-complete": Lie(
        "A cancelled run is reported as complete.",
        r"cancel: .*complete with \d+ new tokens",
        {"done": change.completes},
    ),
    "answers-cancel": Lie(
        "A cancel has an answer.", r"\(cancel\), which has no answer", asked={"cancel": change.answers_cancel}
    ),
    "other-seed": Lie(
        "The seed of the request is not used.", "same answer: sampled.*not", asked={"run": change.other_seed}
    ),
    "random-greedy": Lie(
        "A greedy run draws at random.",
        "same answer: greedy.*the same greedy run again",
        asked={"run": change.random_if_greedy},
    ),
    # Errors.
    "empty-error": Lie("An error has no words.", "error without words", {"error": change.put("found", "")}),
    "two-line-error": Lie(
        "An error has two lines.",
        "found of the error is not one line",
        {"error": change.put("found", change.two_lines)},
    ),
    "error-without-code": Lie("An error has no exit code.", "without a code", {"error": change.put("code", 99)}),
    "serves-anything": Lie(
        "An unknown request is done.",
        "unknown request type was answered with done",
        asked={"no_such_request": change.any_request_is_fine},
    ),
    "runs-anything": Lie(
        "An unknown policy runs as another one.",
        "unknown policy was answered with done",
        asked={"run": change.unknown_policy_is_fine},
    ),
    "dies-of-error": Lie(
        "The engine ends when it is asked for an unknown policy.",
        "error: an unknown policy: the engine stopped",
        asked={"run": change.dies_of_unknown_policy},
    ),
    "silent-error": Lie(
        "A request that cannot be served has no answer.",
        "error: .*no event for .*has no done and no error",
        {"error": lambda talk, event: change.DROP if talk.asked(event).get("type") == "run" else None},
        waits=True,
    ),
    "deaf-after-error": Lie(
        "After an error the engine serves nothing more.",
        r"error: an unknown policy: no event for .*\(run\) has no done",
        asked={"run": change.serves_nothing_after_error},
        waits=True,
    ),
    # Greeting and load.
    "own-name": Lie(
        "A declared policy has a name of KVScope's.", r"greeting: .*policies\[0\].*name", {"hello": change.shadows}
    ),
    "own-title": Lie(
        "A declared policy has a title of KVScope's.",
        r"greeting: .*policies\[0\].*title",
        {"hello": change.steals_a_title},
    ),
    "other-version": Lie(
        "The greeting has another version of the protocol.",
        "greeting: .*version 1",
        {"hello": change.put("version", 1)},
    ),
    "wrong-layers": Lie(
        "The model has a layer more than it has.", "load: n_layers", {"done": change.of_model(change.one_layer_more)}
    ),
    "odd-heads": Lie(
        "The query heads are no multiple of the KV heads.",
        "load: .*no multiple",
        {"done": change.of_model(change.heads_do_not_divide)},
    ),
    "other-weights": Lie("The same model has another hash each time.", "weights_hash", {"done": change.other_weights}),
    "loads-anything": Lie(
        "A folder that does not exist is loaded.",
        "load: .*does not exist was answered with done",
        asked={"load": change.loads_anything},
    ),
    # Several runs at once.
    "none-at-once": Lie(
        "It says that it works on no run at a time.",
        "runs_at_once",
        {"hello": change.put("runs_at_once", 0), "done": change.load_says("runs_at_once", 0)},
    ),
    "fewer-than-no-gpus": Lie("It finds less than no GPU.", "gpus", {"hello": change.put("gpus", -1)}),
    "mixed-runs": Lie(
        "Beside another run, a run has other tokens.",
        r"run [12] of two at once",
        {
            "hello": change.put("runs_at_once", 2),
            "step": change.beside_another(change.new_token(change.other_ids)),
            "done": change.two_at_once,
            "error": change.is_over,
        },
    ),
    "cancels-all": Lie(
        "A cancel of one run cancels every run.",
        # An engine that takes runs in turn has not begun the second, so its end has no timings.
        "(a cancel of the first of two runs ended the second|one of two runs is cancelled: message done: timings)",
        {"hello": change.put("runs_at_once", 2), "done": change.two_at_once, "error": change.is_over},
        {"cancel": change.cancels_all},
    ),
    # Oracle, attention, score.
    "other-mass": Lie(
        "One mass of the oracle is half of what it is.",
        "oracle: its definition: oracle: future_mass of token",
        {"oracle": change.one_mass("future_mass", lambda mass: mass / 2)},
    ),
    "mass-above-1": Lie(
        "A mass is above 1.", "future_mass: 2.*0 to 1", {"oracle": change.one_mass("future_mass", lambda mass: 2.0)}
    ),
    "rms-below-mean": Lie(
        "A root mean square is below its mean.",
        "mean is at most the root mean square",
        {"oracle": change.one_mass("future_rms", lambda mass: mass / 100)},
    ),
    "no-mass": Lie(
        "A token has later queries and no mass.",
        "future_mass of token .* is nan",
        {"oracle": change.one_mass("future_mass", lambda mass: np.nan)},
    ),
    "no-oracle": Lie("A run that asked for the oracle has none.", "no final event oracle", {"oracle": change.withhold}),
    "other-recall": Lie(
        "The recall is not that of masses and lifetimes.",
        "oracle: recall: oracle: the recall of layer",
        {"oracle": change.numbers("recall", change.other_recall)},
    ),
    "less-attention": Lie(
        "A query's attention sums to less than 1.",
        "attention: a distribution: .*sums to",
        {"done": change.numbers("probability", lambda p: np.where(np.arange(p.size) == 0, p, p * np.float32(0.9)))},
    ),
    "other-kept": Lie(
        "The kept tokens of a head are not those of its lifetimes.",
        "score: kept tokens: .*layer 0 head 1 keeps",
        {"done": change.numbers("density", change.more_kept)},
    ),
    "other-nll": Lie(
        "nll is not the mean of the log-probabilities.",
        "score: nll is",
        {"done": lambda talk, event: event.update(nll=event["nll"] + 0.5) if "nll" in event else None},
    ),
    # Services.
    "refuses-declared": Lie(
        "A service is declared and refused.", "service: attention: .*not here", asked={"attention": change.refuses}
    ),
    "silent-service": Lie(
        "A service is declared and has no answer.",
        r"\(attention\) has no done",
        asked={"attention": change.withhold},
        waits=True,
    ),
    "hidden-service": Lie(
        "A service is not declared and answered all the same.",
        "service: attention: .*was answered with done",
        {"hello": change.hides_attention, "done": change.hides_attention},
    ),
    "no-output-error": Lie(
        "A run that asked for the output error has none.", "no event output_error", {"output_error": change.withhold}
    ),
    "ignores-policy": Lie(
        "A change of policy in mid-run is passed over.",
        "policy: a change in mid-run: .*0 events policy",
        asked={"policy": change.withhold},
    ),
    "pretends-policy": Lie(
        "A change of policy is reported, and the old one goes on.",
        "policy: a change in mid-run: policy: a head holds",
        {"started": change.note_text, "step": change.say_policy_changed},
        {"policy": change.note_policy},
    ),
    "bad-exit": Lie("quit ends the engine with an error.", "quit: .*exit code 7", asked={"quit": change.bad_exit}),
}
