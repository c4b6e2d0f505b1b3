"""The calls that people make with the official `openai` package, against `gate serve`.

Arguments: the address of a fast server, of a slow one (a long decode step, one request running and one
waiting) and of a port where nobody listens. One line a check: `ok NAME` or `FAIL NAME` with what differs.
"""

import asyncio
import http.client
import json
import sys
import time
import urllib.request

import openai
from openai import AsyncOpenAI, DefaultHttpxClient, OpenAI

FAST, SLOW, GONE = sys.argv[1:4]
MODEL = "tiny-qwen3"
DEADLINE_S = 60
CHAT = [{"role": "user", "content": "What is 12+34?"}]
FORCED = {"ignore_eos": True, "return_token_ids": True}
CHECKS = []


def client(address=FAST, **more):
    more = {"timeout": DEADLINE_S, "max_retries": 0} | more
    return OpenAI(base_url=f"{address}/v1", api_key="none", **more)


def async_client(address=FAST):
    return AsyncOpenAI(base_url=f"{address}/v1", api_key="none", timeout=DEADLINE_S, max_retries=0)


def check(function):
    CHECKS.append((function.__name__.replace("_", " "), function))
    return function


class Different(Exception):
    pass


def same(got, want, what="value"):
    if got != want:
        raise Different(f"{what}:\n  got  {got!r}\n  want {want!r}")


def holds(condition, what):
    if not condition:
        raise Different(what)


def raises(kind, call, **members):
    """The error of a call that must fail with this class."""
    try:
        call()
    except kind as error:
        for name, want in members.items():
            same(getattr(error, name), want, f"{name} of {error}")
        return error
    raise Different(f"no {kind.__name__}")


def metric(address, name):
    with urllib.request.urlopen(f"{address}/metrics", timeout=DEADLINE_S) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + "{"))


def await_metric(name, value, address=SLOW):
    end = time.monotonic() + DEADLINE_S
    while (now := metric(address, name)) != value:
        holds(time.monotonic() < end, f"{name} stayed {now}, not {value}")


def await_idle():
    for name in ["vllm:num_requests_running", "vllm:num_requests_waiting", "infergate_kv_bytes_used"]:
        await_metric(name, 0)


def complete(prompt="1+1=", **more):
    more = {"temperature": 0, "max_tokens": 24, "extra_body": FORCED} | more
    return client().completions.create(model=MODEL, prompt=prompt, **more)


def chat(**more):
    return client().chat.completions.create(model=MODEL, messages=CHAT, **({"temperature": 0} | more))


def joined(chunks, text):
    """The text of each choice, and the usage of the last chunk."""
    texts, usage = {}, None
    for chunk in chunks:
        for choice in chunk.choices:
            texts[choice.index] = texts.get(choice.index, "") + (text(choice) or "")
        usage = chunk.usage or usage
    return [texts[index] for index in sorted(texts)], usage


def joined_completion(chunks):
    return joined(chunks, lambda choice: choice.text)


def joined_chat(chunks):
    return joined(chunks, lambda choice: choice.delta.content)


def long(address=SLOW, tokens=500, stream=True, **more):
    """An answer that a slow server works on for seconds."""
    return client(address, **more).completions.create(
        model=MODEL, prompt="1+1=", max_tokens=tokens, stream=stream, extra_body={"ignore_eos": True}
    )


USAGE = {"include_usage": True}


@check
def models_list():
    same([model.id for model in client().models.list()], [MODEL])


@check
def models_retrieve():
    same(client().models.retrieve(MODEL).id, MODEL)
    raises(openai.NotFoundError, lambda: client().models.retrieve("other"), code="model_not_found")


@check
def completion_with_usage():
    answer = complete()
    choice = answer.choices[0]
    same(choice.finish_reason, "length")
    same(answer.usage.completion_tokens, 24)
    same(answer.usage.total_tokens, answer.usage.prompt_tokens + 24)
    holds(choice.text.strip(), f"the text is {choice.text!r}")


@check
def completion_streamed_with_usage():
    whole = complete()
    texts, usage = joined_completion(complete(stream=True, stream_options=USAGE))
    same(texts, [whole.choices[0].text])
    same(usage.completion_tokens, whole.usage.completion_tokens)
    same(usage.prompt_tokens, whole.usage.prompt_tokens)


@check
def completion_of_several_prompts():
    prompts = ["1+1=", "hello", "2+2="]
    alone = [complete(prompt).choices[0].text for prompt in prompts]
    answer = complete(prompts)
    same([choice.index for choice in answer.choices], [0, 1, 2])
    same([choice.text for choice in answer.choices], alone)
    same(answer.usage.completion_tokens, 72)
    texts, _ = joined_completion(complete(prompts, stream=True))
    same(texts, alone)


@check
def completion_of_token_ids():
    by_text = complete()
    by_ids = complete(by_text.choices[0].model_extra["prompt_token_ids"])
    same(by_ids.choices[0].text, by_text.choices[0].text)


@check
def chat_with_usage():
    answer = chat()
    same(answer.choices[0].message.role, "assistant")
    same(answer.choices[0].message.content, "46")
    same(answer.choices[0].finish_reason, "stop")
    same(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)


@check
def chat_streamed_with_usage():
    chunks = list(chat(stream=True, stream_options=USAGE))
    same(chunks[0].choices[0].delta.role, "assistant")
    same(chunks[-1].choices, [])
    texts, usage = joined_chat(chunks)
    same(texts, ["46"])
    same(usage.completion_tokens, chat().usage.completion_tokens)


@check
def chat_stream_helper():
    with client().chat.completions.stream(model=MODEL, messages=CHAT, temperature=0) as stream:
        for _ in stream:
            pass
        same(stream.get_final_completion().choices[0].message.content, "46")


@check
def raw_response_has_json():
    raw = client().chat.completions.with_raw_response.create(model=MODEL, messages=CHAT, temperature=0)
    same(raw.headers["content-type"], "application/json")
    same(raw.parse().choices[0].message.content, "46")


@check
def several_choices():
    more = {"n": 3, "seed": 11, "temperature": 1.5}
    whole = complete(**more)
    same([choice.index for choice in whole.choices], [0, 1, 2])
    same([len(choice.model_extra["token_ids"]) for choice in whole.choices], [24, 24, 24])
    same(whole.usage.completion_tokens, 72)
    texts = [choice.text for choice in whole.choices]
    holds(len(set(texts)) > 1, f"all choices are {texts[0]!r}")
    streamed, usage = joined_completion(complete(stream=True, stream_options=USAGE, **more))
    same(streamed, texts)
    same(usage.completion_tokens, 72)


@check
def several_choices_of_a_chat():
    more = {"n": 3, "seed": 11, "temperature": 1.5, "max_tokens": 24}
    whole = [choice.message.content for choice in chat(**more).choices]
    same(len(whole), 3)
    streamed, _ = joined_chat(chat(stream=True, **more))
    same(streamed, whole)


@check
def stop_texts():
    full = complete().choices[0].text
    stop = full[4:6]
    cut = full[: full.index(stop)]
    for given in [stop, ["never there", stop]]:
        answer = complete(stop=given)
        same(answer.choices[0].text, cut)
        same(answer.choices[0].finish_reason, "stop")
        texts, _ = joined_completion(complete(stop=given, stream=True))
        same(texts, [cut])


@check
def stop_texts_of_a_chat():
    answer = chat(stop="6")
    same(answer.choices[0].message.content, "4")
    same(answer.choices[0].finish_reason, "stop")


@check
def logprobs_of_a_completion():
    choice = complete(logprobs=3).choices[0]
    found = choice.logprobs
    same(len(found.tokens), 24)
    same(len(found.token_logprobs), 24)
    holds(all(value <= 0 for value in found.token_logprobs), "a log-probability above 0")
    holds(all(3 <= len(top) <= 4 for top in found.top_logprobs), "not 3 or 4 best tokens")
    streamed = [
        value
        for chunk in complete(logprobs=3, stream=True)
        for one in chunk.choices
        if one.logprobs
        for value in one.logprobs.token_logprobs
    ]
    same(streamed, found.token_logprobs)


@check
def logprobs_of_a_chat():
    answer = chat(logprobs=True, top_logprobs=2)
    content = answer.choices[0].logprobs.content
    same(len(content), answer.usage.completion_tokens)
    same([len(one.top_logprobs) for one in content], [2] * len(content))
    same([one.top_logprobs[0].token for one in content], [one.token for one in content], "greedy")


@check
def a_seed_gives_equal_answers():
    texts = [complete(seed=seed, temperature=1.5).choices[0].text for seed in range(8)]
    again = [complete(seed=seed, temperature=1.5).choices[0].text for seed in range(8)]
    same(again, texts)
    holds(len(set(texts)) > 1, f"every seed gives {texts[0]!r}")


@check
def logit_bias():
    ids = complete().choices[0].model_extra["token_ids"]
    token = str(ids[-1])
    one = complete(max_tokens=6, logit_bias={token: 100}).choices[0]
    same(one.model_extra["token_ids"], [ids[-1]] * 6)


@check
def temperature_and_penalties():
    more = {"temperature": 0.7, "top_p": 0.9, "presence_penalty": 0.5, "frequency_penalty": 0.5}
    same(complete(seed=1, **more).usage.completion_tokens, 24)
    for name, value in [("temperature", 3), ("top_p", 2), ("presence_penalty", 5)]:
        raises(openai.BadRequestError, lambda: complete(**{name: value}), param=name)


@check
def eight_async_calls_at_once():
    prompts = [f"{number}+1=" for number in range(8)]
    alone = [complete(prompt).choices[0].text for prompt in prompts]

    async def all_at_once():
        async with async_client() as many:
            one = lambda prompt: many.completions.create(
                model=MODEL, prompt=prompt, temperature=0, max_tokens=24, extra_body=FORCED
            )
            return await asyncio.gather(*[one(prompt) for prompt in prompts])

    answers = asyncio.run(all_at_once())
    same([answer.choices[0].text for answer in answers], alone)


@check
def tools_are_called():
    digit = {"type": "integer", "minimum": 0, "maximum": 9}
    schema = {"type": "object", "properties": {"a": digit}, "required": ["a"], "additionalProperties": False}
    tools = [{"type": "function", "function": {"name": "add", "parameters": schema}}]
    holds(chat(tools=tools, tool_choice="none").choices[0].message.tool_calls is None, "no call")
    choice = chat(tools=tools, tool_choice="required", max_tokens=200).choices[0]
    same(choice.finish_reason, "tool_calls")
    same(choice.message.content, None)
    call = choice.message.tool_calls[0].function
    same(call.name, "add")
    holds(0 <= json.loads(call.arguments)["a"] <= 9, call.arguments)
    named = {"type": "function", "function": {"name": "add"}}
    chunks = list(chat(tools=tools, tool_choice=named, max_tokens=200, stream=True))
    deltas = [choice.delta.tool_calls for chunk in chunks for choice in chunk.choices if choice.delta.tool_calls]
    same([calls[0].function.arguments for calls in deltas], [call.arguments])


@check
def qwen3s_switch_and_an_answer_have_names():
    extra = {"chat_template_kwargs": {"enable_thinking": False}}
    answer = chat(extra_body=extra, extra_headers={"x-request-id": "mine"})
    holds(answer._request_id == "mine", str(answer._request_id))


@check
def answers_have_the_schema():
    schema = {"type": "object", "properties": {"x": {"enum": ["on", "off"]}}, "required": ["x"], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": schema}}
    text = chat(response_format=form, max_tokens=100).choices[0].message.content
    holds(json.loads(text)["x"] in ("on", "off"), text)
    chunks = chat(response_format=form, max_tokens=100, stream=True)
    same("".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices), text)


@check
def a_wrong_model_is_not_found():
    call = lambda: client().chat.completions.create(model="gpt-4o", messages=CHAT)
    raises(openai.NotFoundError, call, code="model_not_found", status_code=404)


@check
def an_unknown_parameter_is_refused():
    error = raises(
        openai.BadRequestError, lambda: chat(extra_body={"temprature": 1}), code="unknown_parameter"
    )
    holds("did you mean `temperature`" in error.message, error.message)


@check
def too_long_a_context_is_refused():
    call = lambda: complete(max_tokens=40_000)
    raises(openai.BadRequestError, call, code="context_length_exceeded")


class Occupied:
    """Two bare requests that nobody reads: one runs, one waits, and the slow server takes no more."""

    def __enter__(self):
        self.connections = []
        for name in ["vllm:num_requests_running", "vllm:num_requests_waiting"]:
            connection = http.client.HTTPConnection(SLOW.removeprefix("http://"))
            body = {"prompt": "1+1=", "max_tokens": 500, "ignore_eos": True, "stream": True}
            connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
            self.connections.append(connection)
            await_metric(name, 1)
        return self

    def leave(self):
        for connection in self.connections:
            connection.close()

    def __exit__(self, *_):
        self.leave()
        await_idle()


@check
def a_full_queue_is_a_rate_limit_error():
    with Occupied():
        error = raises(openai.RateLimitError, lambda: long(tokens=1), code="queue_full")
        holds(int(error.response.headers["retry-after"]) >= 1, "no retry-after of 1 s or more")


@check
def the_clients_own_retries_succeed():
    with Occupied() as others:

        def leave_when_refused(response):
            if response.status_code == 429:
                others.leave()

        hooked = DefaultHttpxClient(event_hooks={"response": [leave_when_refused]})
        patient = client(SLOW, max_retries=8, http_client=hooked)
        raw = patient.completions.with_raw_response.create(model=MODEL, prompt="1+1=", max_tokens=1)
        holds(raw.retries_taken >= 1, "no retry was needed")
        same(raw.parse().usage.completion_tokens, 1)


@check
def a_timeout_is_a_timeout_error():
    raises(openai.APITimeoutError, lambda: long(stream=False, timeout=0.3))
    await_idle()


@check
def a_stream_that_is_closed_frees_its_slot():
    stream = long()
    same(len([next(stream) for _ in range(2)]), 2)
    await_metric("vllm:num_requests_running", 1)
    stream.close()
    await_idle()


@check
def a_stream_that_is_left_frees_its_slot():
    with long() as stream:
        for _ in stream:
            break
    await_idle()


@check
def an_async_call_that_is_cancelled_frees_its_slot():
    async def cancelled(stream):
        async with async_client(SLOW) as many:
            call = many.completions.create(
                model=MODEL, prompt="1+1=", max_tokens=500, stream=stream, extra_body={"ignore_eos": True}
            )

            async def read():
                async for _ in await call:
                    pass

            task = asyncio.ensure_future(read() if stream else call)
            await asyncio.to_thread(await_metric, "vllm:num_requests_running", 1)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                return
            raise Different("the call was not cancelled")

    for stream in [True, False]:
        asyncio.run(cancelled(stream))
        await_idle()


@check
def a_server_that_is_gone_is_a_connection_error():
    call = lambda: client(GONE).models.list()
    error = raises(openai.APIConnectionError, call)
    holds(not isinstance(error, openai.APITimeoutError), "it is a timeout")


def main():
    failed = 0
    for name, function in CHECKS:
        try:
            function()
            print(f"ok {name}", flush=True)
        except Exception as error:  # one broken check must not hide the others
            failed += 1
            print(f"FAIL {name}: {type(error).__name__}: {error}", flush=True)
    print(f"{len(CHECKS) - failed} of {len(CHECKS)} checks hold, openai {openai.__version__}")
    return failed > 0


sys.exit(main())
