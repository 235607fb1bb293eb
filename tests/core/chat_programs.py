"""Chat templates after the documented formats of model families, written for make_chat_programs.py. Each uses the constructs that the
family's template has: macros, namespaces, filters, tools, dates. NAME: (text, what it gets besides messages)."""
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "Current weather of a place, in \u00b0C", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "description": "Name of the city"}, "days": {"type": "integer", "default": 1},
                                     "units": {"type": "string", "enum": ["metric", "imperial"]}}, "required": ["city"]}}}
ADD = {"type": "function", "function": {"name": "add", "description": "Adds \"two\" numbers <x>", "parameters": {
    "type": "object", "properties": {"a": {"type": "number", "minimum": 0.5}, "b": {"type": ["number", "null"]}, "list": {"type": "array", "items": {"type": "string"}}},
    "required": ["a", "b"]}, "strict": True, "return": {"type": "number"}}}
TOOLS = {"tools": [WEATHER, ADD]}
THINK, NO_THINK = {"enable_thinking": True}, {"enable_thinking": False}
S = {"bos_token": "<s>", "eos_token": "</s>"}
CHATML = r"""{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"""
ASK = r"""{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""

YI = r"""{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% if messages[0]['role'] == 'system' %}{% set system_message = messages[0]['content'] %}{% endif %}{% if system_message is defined %}{{ system_message }}{% endif %}{% for message in messages %}{% set content = message['content'] %}{% if message['role'] == 'user' %}{{ '<|im_start|>user\n' + content + '<|im_end|>\n<|im_start|>assistant\n' }}{% elif message['role'] == 'assistant' %}{{ content + '<|im_end|>' + '\n' }}{% endif %}{% endfor %}"""

BIELIK = r"""{{ bos_token }}{% for message in messages %}
{%- if message.role not in ('system', 'user', 'assistant', 'tool') %}{{ raise_exception('Unknown role: ' ~ message.role) }}{% endif %}
<|im_start|>{{ message.role }}
{{ message['content'] if message['content'] is string else message['content'] | tojson }}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}
<|im_start|>assistant
{% endif %}"""

HERMES = r"""{%- macro json_to_python_type(json_spec) %}
    {%- set basic = {"string": "str", "number": "float", "integer": "int", "boolean": "bool", "null": "None"} %}
    {%- if basic[json_spec.type] is defined %}
        {{- basic[json_spec.type] }}
    {%- elif json_spec.type == "array" %}
        {{- "list[" + json_to_python_type(json_spec["items"]) + "]" }}
    {%- elif json_spec.type == "object" %}
        {%- if json_spec.additionalProperties is defined %}
            {{- "dict[str, " + json_to_python_type(json_spec.additionalProperties) + "]" }}
        {%- else %}
            {{- "dict" }}
        {%- endif %}
    {%- elif json_spec.type is iterable %}
        {{- "Union[" }}
        {%- for t in json_spec.type %}
            {{- json_to_python_type({"type": t}) }}
            {%- if not loop.last %}
                {{- "," }}
            {%- endif %}
        {%- endfor %}
        {{- "]" }}
    {%- else %}
        {{- "Any" }}
    {%- endif %}
{%- endmacro %}
{{- bos_token }}
{%- if tools %}
{{- "<|im_start|>system\nSignatures: <tools> " }}
{%- for tool in tools %}
    {%- if tool.function is defined %}{%- set tool = tool.function %}{%- endif %}
    {{- '{"type": "function", "function": {"name": "' + tool.name + '", "description": "' + tool.name + '(' }}
    {%- for param_name, param_fields in tool.parameters.properties|items %}
        {{- param_name + ": " + json_to_python_type(param_fields) }}
        {%- if not loop.last %}{{- ", " }}{%- endif %}
    {%- endfor %}
    {{- ")" }}
    {%- if tool.return is defined %}{{- " -> " + json_to_python_type(tool.return) }}{%- endif %}
    {{- " - " + tool.description + "\n\n" }}
    {%- for param_name, param_fields in tool.parameters.properties|items %}
        {%- if loop.first %}{{- "    Args:\n" }}{%- endif %}
        {{- "        " + param_name + "(" + json_to_python_type(param_fields) + "): " + (param_fields.description | default("none") | trim) }}
    {%- endfor %}
    {{- '", "parameters": ' }}
    {%- if tool.parameters.properties | length == 0 %}{{- "{}" }}{%- else %}{{- tool.parameters|tojson }}{%- endif %}
    {{- "}" }}
    {%- if not loop.last %}{{- "\n" }}{%- endif %}
{%- endfor %}
{{- " </tools><|im_end|>\n" }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == "user" or message.role == "system" or (message.role == "assistant" and message.tool_calls is not defined) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- for tool_call in message.tool_calls %}
            {{- '\n<tool_call>\n' }}
            {%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '{"name": "' + tool_call.name + '", "arguments": ' + tool_call.arguments|tojson + '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.previtem and loop.previtem.role != "tool" %}{{- '<|im_start|>tool\n' }}{%- endif %}
        {{- '<tool_response>\n' + message.content }}
        {%- if not loop.last %}{{- '\n</tool_response>\n' }}{%- else %}{{- '\n</tool_response>' }}{%- endif %}
        {%- if not loop.last and loop.nextitem.role != "tool" %}{{- '<|im_end|>' }}{%- elif loop.last %}{{- '<|im_end|>' }}{%- endif %}
    {%- endif %}
{%- endfor %}
""" + ASK

QWEN25 = r"""{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {{- messages[0]['content'] if messages[0]['role'] == 'system' else 'You are a helpful assistant.' }}
    {{- "\n\n# Tools\n\n<tools>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools><|im_end|>\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}{{- '\n' + message.content }}{%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '\n<tool_call>\n{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}{{- tool_call.arguments | tojson }}{{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\n<tool_response>\n' + message.content + '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|im_end|>\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
""" + ASK

QWEN3 = QWEN25[:QWEN25.index("{%- for message in messages %}")].replace("You are a helpful assistant.", "") + r"""{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == "assistant" %}
        {%- set reasoning_content = message.reasoning_content if message.reasoning_content is string else '' %}
        {%- if not reasoning_content and '</think>' in content %}
            {%- set reasoning_content = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and (loop.last or (not loop.last and reasoning_content)) %}
            {{- '<|im_start|>' + message.role + '\n<think>\n' + reasoning_content.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "user" or not loop.first %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}
{%- endif %}
"""

QWEN3_CODER = r"""{% macro render_extra_keys(json_dict, handled_keys) %}
    {%- if json_dict is mapping %}
        {%- for json_key in json_dict if json_key not in handled_keys %}
            {%- if json_dict[json_key] is mapping or (json_dict[json_key] is sequence and json_dict[json_key] is not string) %}
                {{- '\n<' ~ json_key ~ '>' ~ (json_dict[json_key] | tojson | safe) ~ '</' ~ json_key ~ '>' }}
            {%- else %}
                {{-'\n<' ~ json_key ~ '>' ~ (json_dict[json_key] | string) ~ '</' ~ json_key ~ '>' }}
            {%- endif %}
        {%- endfor %}
    {%- endif %}
{% endmacro %}
{%- if messages[0]["role"] == "system" %}{%- set system_message = messages[0]["content"] %}{%- set loop_messages = messages[1:] %}
{%- else %}{%- set loop_messages = messages %}{%- endif %}
{%- if not tools is defined %}{%- set tools = [] %}{%- endif %}
{%- if system_message is defined %}{{- "<|im_start|>system\n" + system_message }}{%- endif %}
{%- if tools is iterable and tools | length > 0 %}
    {{- "\n\n# Tools\n\n<tools>" }}
    {%- for tool in tools %}
        {%- if tool.function is defined %}{%- set tool = tool.function %}{%- endif %}
        {{- "\n<function>\n<name>" ~ tool.name ~ "</name>" }}
        {%- if tool.description is defined %}{{- '\n<description>' ~ (tool.description | trim) ~ '</description>' }}{%- endif %}
        {%- for param_name, param_fields in tool.parameters.properties|items %}
            {{- '\n<parameter>' ~ '\n<name>' ~ param_name ~ '</name>' }}
            {{- '\n<type>' ~ (param_fields.type | string) ~ '</type>' }}
            {{- render_extra_keys(param_fields, ['name', 'type', 'description']) }}
            {{- '\n</parameter>' }}
        {%- endfor %}
        {%- set handled_keys = ['type', 'properties'] %}
        {{- render_extra_keys(tool.parameters, handled_keys) }}
        {{- '\n</function>' }}
    {%- endfor %}
{%- endif %}
{%- for message in loop_messages %}
    {{- '<|im_start|>' + message.role + '\n' + message.content|default('', true)|trim + '<|im_end|>\n' }}
{%- endfor %}
""" + ASK

SMOLLM3 = r"""{# defaults #}
{%- if enable_thinking is not defined -%}
{%- set enable_thinking = true -%}
{%- endif -%}
{%- if enable_thinking -%}{%- set reasoning_mode = "/think" -%}{%- else -%}{%- set reasoning_mode = "/no_think" -%}{%- endif -%}
{{- "<|im_start|>system\n" -}}
{%- if messages[0].role == "system" -%}
  {%- set system_message = messages[0].content -%}
  {%- if "/no_think" in system_message -%}{%- set reasoning_mode = "/no_think" -%}{%- elif "/think" in system_message -%}{%- set reasoning_mode = "/think" -%}{%- endif -%}
  {%- set custom_instructions = system_message.replace("/no_think", "").replace("/think", "").rstrip() -%}
{%- endif -%}
{%- set today = strftime_now("%d %B %Y") -%}
{{- "## Metadata\n\nToday Date: " ~ today ~ "\nReasoning Mode: " + reasoning_mode + "\n\n" -}}
{%- if custom_instructions -%}{{- custom_instructions + "\n\n" -}}{%- endif -%}
{%- if xml_tools or tools -%}
  {{- "### Tools\n\n" -}}
  {%- set ns = namespace(xml_tool_string="You may call functions:\n\n<tools>\n") -%}
  {%- for tool in (xml_tools or tools) -%}
    {%- set ns.xml_tool_string = ns.xml_tool_string ~ (tool | string) ~ "\n" -%}
  {%- endfor -%}
  {{- ns.xml_tool_string + "</tools>" -}}
{%- endif -%}
{{- "<|im_end|>\n" -}}
{%- for message in messages -%}
    {%- set content = message.content if message.content is string else "" -%}
    {%- if message.role == "user" -%}
        {{ "<|im_start|>" + message.role + "\n"  + content + "<|im_end|>\n" }}
    {%- elif message.role == "assistant" -%}
        {% generation %}
        {%- if reasoning_mode == "/think" -%}
            {{ "<|im_start|>assistant\n" + content.lstrip("\n") + "<|im_end|>\n" }}
        {%- else -%}
            {{ "<|im_start|>assistant\n" + "<think>\n\n</think>\n" + content.lstrip("\n") + "<|im_end|>\n" }}
        {%- endif -%}
        {% endgeneration %}
    {%- elif message.role == "tool" -%}
    {{ "<|im_start|>" + "user\n"  + content + "<|im_end|>\n" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ "<|im_start|>assistant\n" if reasoning_mode == "/think" else "<|im_start|>assistant\n" + "<think>\n\n</think>\n" }}
{%- endif -%}
"""

HEADER = r"""'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>'"""
HEADER_ASK = r"""{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"""
LLAMA3 = r"{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = " + HEADER + r" %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}" + HEADER_ASK
LLAMA31 = r"""{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{%- if builtin_tools is defined or tools is not none %}
    {{- "Environment: ipython\n" }}
{%- endif %}
{%- if builtin_tools is defined %}
    {{- "Tools: " + builtin_tools | reject('equalto', 'code_interpreter') | join(", ") + "\n\n"}}
{%- endif %}
{{- "Cutting Knowledge Date: December 2023\nToday Date: " + date_string + "\n\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message + "<|eot_id|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("No first user message for the tools") }}
    {%- endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\n\n' -}}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot_id|>"}}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- """ + HEADER + r""" }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("One tool call at a time") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {%- if builtin_tools is defined and tool_call.name in builtin_tools %}
            {{- '<|start_header_id|>assistant<|end_header_id|>\n\n<|python_tag|>' + tool_call.name + ".call(" }}
            {%- for arg_name, arg_val in tool_call.arguments | items %}
                {{- arg_name + '="' + arg_val | string + '"' }}
                {%- if not loop.last %}{{- ", " }}{%- endif %}
            {%- endfor %}
            {{- ")" }}
        {%- else %}
            {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}
            {{- '{"name": "' + tool_call.name + '", "parameters": ' }}
            {{- tool_call.arguments | tojson }}
            {{- "}" }}
        {%- endif %}
        {{- "<|eom_id|>" if builtin_tools is defined else "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\n\n" }}
        {%- if message.content is mapping or message.content is iterable %}{{- message.content | tojson }}{%- else %}{{- message.content }}{%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
""" + HEADER_ASK
LLAMA32 = LLAMA31.replace('''    {%- set date_string = "26 Jul 2024" %}
''', '''    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
''')
LLAMA4 = r"""{{- bos_token }}
{%- for message in messages %}
    {{- '<|header_start|>' + message['role'] + '<|header_end|>\n\n' }}
    {%- if message['content'] is string %}
        {{- message['content'] }}
    {%- else %}
        {%- for content in message['content'] %}
            {%- if content['type'] == 'image' %}{{- '<|image|>' }}{%- elif content['type'] == 'text' %}{{- content['text'] | trim }}{%- endif %}
        {%- endfor %}
    {%- endif %}
    {{- "<|eot|>" }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|header_start|>assistant<|header_end|>\n\n' }}{%- endif %}
"""
NEMOTRON = r"""{{- bos_token }}{%- if messages[0]['role'] == 'system' %}{%- set system_message = messages[0]['content']|trim %}{%- set messages = messages[1:] %}{%- else %}{%- set system_message = "" %}{%- endif %}{{- "<|start_header_id|>system<|end_header_id|>\n\ndetailed thinking " ~ ("on" if thinking else "off") ~ "\n\n" }}{{- system_message }}{{- "<|eot_id|>" }}{%- for message in messages %}{%- if message['role'] == 'assistant' and '</think>' in message['content'] %}{%- set content = message['content'].split('</think>')[-1].lstrip() %}{%- else %}{%- set content = message['content'] %}{%- endif %}{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + content | trim + '<|eot_id|>' }}{%- endfor %}""" + HEADER_ASK

MISTRAL1 = r"""{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}"""
MISTRAL3 = r"""{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, roles must alternate") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\n\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" + eos_token }}{%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + content|string + ", " }}
        {{- '"call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported") }}
    {%- endif %}
{%- endfor %}
"""
MISTRAL_SMALL = r"""{%- set today = strftime_now("%Y-%m-%d") %}
{%- set default_system_message = "You are Mistral Small 3. The current date is " + today + ".\n\nWhen unsure, ask." %}
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- if messages[0]['content'] is string %}
        {%- set system_message = messages[0]['content'] %}
    {%- else %}
        {%- set system_message = messages[0]['content'][0]['text'] %}
    {%- endif %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set system_message = default_system_message %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- '[SYSTEM_PROMPT]' + system_message + '[/SYSTEM_PROMPT]' }}
{%- for message in loop_messages %}
    {%- if message['role'] == 'user' %}
        {%- if message['content'] is string %}
            {{- '[INST]' + message['content'] + '[/INST]' }}
        {%- else %}
            {{- '[INST]' }}
            {%- for block in message['content'] %}
                {%- if block['type'] == 'text' %}{{- block['text'] }}{%- elif block['type'] in ['image', 'image_url'] %}{{- '[IMG]' }}
                {%- else %}{{- raise_exception('Only text and image blocks are supported in message content!') }}{%- endif %}
            {%- endfor %}
            {{- '[/INST]' }}
        {%- endif %}
    {%- elif message['role'] == 'system' %}
        {{- '[SYSTEM_PROMPT]' + message['content'] + '[/SYSTEM_PROMPT]' }}
    {%- elif message['role'] == 'assistant' %}
        {{- message['content'] + eos_token }}
    {%- else %}
        {{- raise_exception('Only user, system and assistant roles are supported!') }}
    {%- endif %}
{%- endfor %}
"""
GEMMA2 = r"""{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"""
GEMMA3 = r"""{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '

' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
"""
PHI3 = r"""{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] == 'user' %}{{'<|user|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>
' + message['content'] + '<|end|>
'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>
' }}{% else %}{{ eos_token }}{% endif %}"""
PHI35 = r"""{{ bos_token }}{% for message in messages %}{{ '<|' ~ message.role ~ '|>' ~ '\n' ~ message.content ~ '<|end|>\n' }}{% endfor %}{{ '<|assistant|>\n' if add_generation_prompt else eos_token }}"""
PHI4 = r"""{% for message in messages %}{% if (message['role'] == 'system') %}{{'<|im_start|>system<|im_sep|>' + message['content'] + '<|im_end|>'}}{% elif (message['role'] == 'user') %}{{'<|im_start|>user<|im_sep|>' + message['content'] + '<|im_end|>'}}{% elif (message['role'] == 'assistant') %}{{'<|im_start|>assistant<|im_sep|>' + message['content'] + '<|im_end|>'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}"""
PHI4_MINI = r"""{% for message in messages %}{% if message['role'] == 'system' and 'tools' in message and message['tools'] is not none %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|tool|>' + message['tools'] + '<|/tool|>' + '<|end|>' }}{% else %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}"""
DEEPSEEK_R1 = r"""{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='') %}{%- for message in messages %}{%- if message['role'] == 'system' %}{% set ns.system_prompt = message['content'] %}{%- endif %}{%- endfor %}{{bos_token}}{{ns.system_prompt}}{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{'<｜User｜>' + message['content']}}{%- endif %}{%- if message['role'] == 'assistant' and message['tool_calls'] is defined and message['tool_calls'] %}{%- set ns.is_tool = false -%}{%- for tool in message['tool_calls']%}{%- if not ns.is_first %}{{'<｜Assistant｜><｜tool▁calls▁begin｜>' + tool['type'] + '\n' + '```json' + '\n' + tool['function']['arguments'] | tojson + '\n' + '```'}}{%- set ns.is_first = true -%}{%- else %}{{'\n' + tool['type'] + '\n```json\n' + tool['function']['arguments'] | tojson + '\n```'}}{{'<｜end▁of▁sentence｜>'}}{%- endif %}{%- endfor %}{%- elif message['role'] == 'assistant' %}{%- if ns.is_tool %}{{'<｜tool▁outputs▁end｜>' + message['content'] + '<｜end▁of▁sentence｜>'}}{%- set ns.is_tool = false -%}{%- else %}{% set content = message['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}{{'<｜Assistant｜>' + content + '<｜end▁of▁sentence｜>'}}{%- endif %}{%- endif %}{%- if message['role'] == 'tool' %}{%- set ns.is_tool = true -%}{%- if ns.is_output_first %}{{'<｜tool▁outputs▁begin｜>' + message['content']}}{%- set ns.is_output_first = false %}{%- else %}{{'\n' + message['content']}}{%- endif %}{%- endif %}{%- endfor -%}{% if ns.is_tool %}{{'<｜tool▁outputs▁end｜>'}}{% endif %}{% if add_generation_prompt and not ns.is_tool %}{{'<｜Assistant｜><think>\n'}}{% endif %}"""
DEEPSEEK_V3 = DEEPSEEK_R1.replace("<think>\\n'}}{% endif %}", "' ~ ('<think>' if thinking else '</think>')}}{% endif %}")
HARMONY = r"""{%- macro render_type(spec) -%}
    {%- if spec.type == "array" -%}
        {{- render_type(spec['items']) ~ "[]" if spec['items'] else "any[]" }}
    {%- elif spec.type is defined and spec.type is iterable and spec.type is not string and spec.type is not mapping and spec.type[0] is defined -%}
        {{- spec.type | join(" | ") }}
    {%- elif spec.enum is defined -%}
        {{- '"' + spec.enum|join('" | "') + '"' }}
    {%- elif spec.type in ["number", "integer"] -%}
        {{- "number" }}
    {%- else -%}
        {{- spec.type | default("any") }}
    {%- endif -%}
{%- endmacro -%}
{%- macro render_tools(namespace_name, tools) -%}
    {{- "## " + namespace_name + "\n\nnamespace " + namespace_name + " {\n\n" }}
    {%- for tool in tools %}
        {%- set tool = tool.function %}
        {{- "// " + tool.description + "\ntype " + tool.name + " = (_: {\n" }}
        {%- for name, spec in tool.parameters.properties.items() %}
            {%- if spec.description %}{{- "// " + spec.description + "\n" }}{%- endif %}
            {{- name + ("" if name in (tool.parameters.required or []) else "?") + ": " + render_type(spec) }}
            {%- if spec.default is defined %}
                {%- if spec.default is string %}{{- ", // default: \"" + spec.default + "\"" }}{%- else %}{{- ", // default: " + spec.default|string }}{%- endif %}
            {%- endif %}
            {{- "\n" if loop.last else ",\n" }}
        {%- endfor %}
        {{- "}) => any;\n\n" }}
    {%- endfor %}
    {{- "} // namespace " + namespace_name }}
{%- endmacro -%}
{%- if not model_identity is defined %}{%- set model_identity = "You are a model." %}{%- endif %}
{%- if not reasoning_effort is defined %}{%- set reasoning_effort = "medium" %}{%- endif %}
{{- "<|start|>system<|message|>" + model_identity + "\nKnowledge cutoff: 2024-06\nCurrent date: " + strftime_now("%Y-%m-%d") + "\n\nReasoning: " + reasoning_effort + "\n\n# Valid channels: analysis, commentary, final.<|end|>" }}
{%- if messages[0].role == "developer" or messages[0].role == "system" %}
    {%- set developer_message = messages[0].content %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set developer_message = "" %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if developer_message or tools %}
    {{- "<|start|>developer<|message|>" }}
    {%- if developer_message %}{{- "# Instructions\n\n" + developer_message + "\n\n" }}{%- endif %}
    {%- if tools -%}{{- "# Tools\n\n" + render_tools("functions", tools) }}{%- endif -%}
    {{- "<|end|>" }}
{%- endif %}
{%- set last_tool_call = namespace(name=none) %}
{%- for message in loop_messages -%}
    {%- if message.role == 'assistant' -%}
        {%- if "<|channel|>analysis<|message|>" in message.content|default('', true) %}{{- raise_exception("Channels are written by the template") }}{%- endif %}
        {%- if message.tool_calls %}
            {%- for call in message.tool_calls %}{%- set f = call.function %}
            {{- "<|start|>assistant to=functions." + f.name + "<|channel|>commentary " + (call.content_type if call.content_type is defined else "json") + "<|message|>" + f.arguments|tojson + "<|call|>" }}
            {%- set last_tool_call.name = f.name %}{%- endfor %}
        {%- elif loop.last and not add_generation_prompt %}
            {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|return|>" }}
        {%- else %}
            {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|end|>" }}
            {%- set last_tool_call.name = none %}
        {%- endif %}
    {%- elif message.role == 'tool' -%}
        {%- if last_tool_call.name is none %}{{- raise_exception("A tool message without a call before it") }}{%- endif %}
        {{- "<|start|>functions." + last_tool_call.name + " to=assistant<|channel|>commentary<|message|>" + message.content|tojson + "<|end|>" }}
    {%- elif message.role == 'user' -%}
        {{- "<|start|>user<|message|>" + message.content + "<|end|>" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
<|start|>assistant
{%- endif -%}"""
GRANITE = r"""{%- if messages[0]['role'] == 'system' %}
     {%- set system_message = messages[0]['content'] %}
     {%- set loop_messages = messages[1:] %}
 {%- else %}
     {%- set system_message = "Knowledge Cutoff Date: April 2024.
Today's Date: " + strftime_now('%B %d, %Y') + ".
You are Granite." %}
     {%- if tools and documents %}
         {%- set system_message = system_message + " Use tools and documents." %}
     {%- elif tools %}
         {%- set system_message = system_message + " Use tools." %}
     {%- elif thinking %}
         {%- set system_message = system_message + " Think first." %}
     {%- endif %}
     {%- set loop_messages = messages %}
 {%- endif %}
 {{- '<|start_of_role|>system<|end_of_role|>' + system_message + '<|end_of_text|>
' }}
 {%- if tools %}
     {{- '<|start_of_role|>tools<|end_of_role|>' + tools | tojson(indent=4) + '<|end_of_text|>
' }}
 {%- endif %}
 {%- if documents %}
     {{- '<|start_of_role|>documents<|end_of_role|>' }}
     {%- for document in documents %}
         {{- 'Document ' + loop.index0 | string + '
' + document['text'] + ('' if loop.last else '

') }}
     {%- endfor %}
     {{- '<|end_of_text|>
' }}
 {%- endif %}
 {%- for message in loop_messages %}
     {{- '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + message['content'] | string + '<|end_of_text|>
' }}
     {%- if loop.last and add_generation_prompt %}
         {{- '<|start_of_role|>assistant' }}
             {%- if controls %}{{- ' ' + controls | tojson()}}{%- endif %}
         {{- '<|end_of_role|>' }}
     {%- endif %}
 {%- endfor %}"""
OLMO2 = r"""{{ bos_token }}{% for message in messages %}{% if message['role'] == 'system' %}{{ '<|system|>
' + message['content'] + '
' }}{% elif message['role'] == 'user' %}{{ '<|user|>
' + message['content'] + '
' }}{% elif message['role'] == 'assistant' %}{% if not loop.last %}{{ '<|assistant|>
'  + message['content'] + eos_token + '
' }}{% else %}{{ '<|assistant|>
'  + message['content'] + eos_token }}{% endif %}{% endif %}{% if loop.last and add_generation_prompt %}{{ '<|assistant|>
' }}{% endif %}{% endfor %}"""
OLMO3 = r"""{%- set has_system = messages|selectattr('role', 'equalto', 'system')|list|length > 0 -%}
{%- if not has_system -%}
    {{ '<|im_start|>system\nYou are a helpful function-calling AI assistant. ' }}
    {%- if tools is none or not tools -%}
        {{ 'You do not currently have access to any functions. <functions></functions>' }}
    {%- else -%}
        {{ 'The functions that you may call: <functions>' }}{{ tools | tojson }}{{ '</functions>' }}
    {%- endif -%}
    {{ '<|im_end|>\n' }}
{%- endif -%}
{%- for message in messages -%}
    {%- if message['role'] == 'system' -%}
        {{ '<|im_start|>system\n' + message['content'] }}
        {%- if message.get('functions', none) is not none -%}
            {{ ' <functions>' + message['functions'] + '</functions>' }}
        {%- elif tools -%}
            {{ ' <functions>' }}{{ tools | tojson }}{{ '</functions>' }}
        {%- endif -%}
        {{ '<|im_end|>\n' }}
    {%- elif message['role'] == 'user' -%}
        {{ '<|im_start|>user\n' + message['content'] + '<|im_end|>\n' }}
    {%- elif message['role'] == 'assistant' -%}
        {{ '<|im_start|>assistant\n' }}
        {%- if message.get('content', none) is not none -%}{{ message['content'] }}{%- endif -%}
        {%- if message.get('tool_calls', none) is not none -%}
            {{ '<function_calls>' }}
            {%- for call in message['tool_calls'] -%}
                {{ call['function']['name'] + '(' }}
                {%- for key, value in call['function']['arguments'].items() -%}
                    {{ key + '=' }}{{ value | tojson }}{{ '' if loop.last else ', ' }}
                {%- endfor -%}
                {{ ')' if loop.last else ')\n' }}
            {%- endfor -%}
            {{ '</function_calls>' }}
        {%- endif -%}
        {{ eos_token if loop.last else '<|im_end|>\n' }}
    {%- elif message['role'] in ['environment', 'tool'] -%}
        {{ '<|im_start|>environment\n' + message['content'] + '<|im_end|>\n' }}
    {%- endif -%}
    {%- if loop.last and add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}
{%- endfor -%}"""
OLMO3_THINK = OLMO3.replace(r"""{{ '<|im_start|>assistant\n' }}{%- endif -%}
{%- endfor""", r"""{{ '<|im_start|>assistant\n<think>' }}{%- endif -%}
{%- endfor""")
COMMAND_R = r"""{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% elif false == true %}{% set loop_messages = messages %}{% set system_message = 'You are Command-R.' %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% if system_message != false %}{{ '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>' + system_message + '<|END_OF_TURN_TOKEN|>' }}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% set content = message['content'] %}{% if message['role'] == 'user' %}{{ '<|START_OF_TURN_TOKEN|><|USER_TOKEN|>' + content.strip() + '<|END_OF_TURN_TOKEN|>' }}{% elif message['role'] == 'assistant' %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>'  + content.strip() + '<|END_OF_TURN_TOKEN|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %}"""
COMMAND_R_TOOLS = r"""{%- macro document_turn(documents) -%}
{% for d in documents %}{{ loop.index0 }}: {{ d.title|title }} - {{ d.text|replace('\n', ' ') }}{{ "; " if not loop.last }}{% endfor %}
{%- endmacro %}
{%- macro json_to_python_type(spec) %}{%- set types = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"} %}{{- types.get(spec.type, 'Any') if spec.type is string else 'Any' }}{%- endmacro %}
{{- bos_token }}<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>
{%- set sys_ns = namespace(text="## Task\n") %}
{%- for message in messages if message.role == 'system' %}{% set sys_ns.text = sys_ns.text ~ message.content ~ '\n' %}{% endfor %}
{{- sys_ns.text }}
{%- for tool in tools or [] %}
{%- with f = tool.function %}
```python
def {{ f.name }}({% for name, spec in f.parameters.properties.items() %}{{ name }}: {{ json_to_python_type(spec) }}{% if name not in f.parameters.required %} = None{% endif %}{{ ', ' if not loop.last else '' }}{% endfor %}) -> List[Dict]:
    """ + '"""{{ f.description|indent(4) }}"""' + r"""
    pass
```
{%- endwith %}
{%- else %}
No tools.
{%- endfor %}
{%- if documents %}{{ '\n' ~ document_turn(documents) }}{% endif %}<|END_OF_TURN_TOKEN|>
{%- for message in messages if message.role != 'system' %}
{{- '<|START_OF_TURN_TOKEN|>' ~ {'user': '<|USER_TOKEN|>', 'assistant': '<|CHATBOT_TOKEN|>'}.get(message.role, '<|SYSTEM_TOKEN|>') ~ (message.content or '')|string|trim ~ '<|END_OF_TURN_TOKEN|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %}"""
ZEPHYR = r"""{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>
'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""
VICUNA = r"""{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'].strip() + ' ' %}{% else %}{% set loop_messages = messages %}{% set system_message = 'A chat between a curious user and an assistant. ' %}{% endif %}{{ bos_token + system_message }}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% if message['role'] == 'user' %}{{ 'USER: ' + message['content'].strip() + ' ' }}{% elif message['role'] == 'assistant' %}{{ 'ASSISTANT: ' + message['content'].strip() + eos_token }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"""
FALCON = r"""{% for message in messages %}{% if not loop.first %}{{ '\n' }}{% endif %}{{ message.role|capitalize ~ ': ' ~ message.content|replace('\r\n', '\n')|replace('\n\n', '\n')|trim }}{% endfor %}{% if add_generation_prompt %}{{ '\nAssistant:' }}{% endif %}"""
FALCON3 = r"""{% for message in messages %}{% if message['role'] == 'system' %}{{ '<|system|>\n' + message['content'] + '\n' }}{% elif message['role'] == 'user' %}{{ '<|user|>\n' + message['content'] + '\n' }}{% elif message['role'] == 'assistant' %}{% if not loop.last %}{{ '<|assistant|>\n' + message['content'] + eos_token + '\n' }}{% else %}{{ '<|assistant|>\n' + message['content'] + eos_token }}{% endif %}{% endif %}{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}{% endfor %}"""
INTERNLM = r"""{{ bos_token }}{%- for message in messages -%}{%- if message.role == 'tool' -%}{%- set who = 'environment name=<|plugin|>' -%}{%- else -%}{%- set who = message['role'] -%}{%- endif -%}{{ ['<|im_start|>', who, '\n', message['content'], '<|im_end|>', '\n'] | join }}{%- endfor -%}""" + ASK
EXAONE = r"""{% for message in messages %}{% if loop.first and message['role'] != 'system' %}{{ '[|system|][|endofturn|]\n' }}{% endif %}{{ '[|' + message['role'] + '|]' + message['content'] }}{% if message['role'] == 'user' %}{{ '\n' }}{% else %}{{ '[|endofturn|]\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '[|assistant|]' }}{% endif %}"""
GLM4 = r"""[gMASK]<sop>
{%- if tools %}
<|system|>
# Tools

{% for tool in tools %}{% if tool['type'] == 'function' %}
## {{ tool['function']['name'] }}

{{ tool['function'] | tojson(indent=4, ensure_ascii=False) }}
{% endif %}{% endfor %}
{%- endif %}
{%- macro visible_text(content) -%}
    {%- if content is string -%}{{- content }}
    {%- elif content is iterable and content is not mapping -%}
        {%- for item in content -%}
            {%- if item is mapping and item.type == 'text' -%}{{- item.text }}{%- elif item is string -%}{{- item }}{%- endif -%}
        {%- endfor -%}
    {%- else -%}{{- content }}{%- endif -%}
{%- endmacro -%}
{%- set ns = namespace(last_user_index=-1) %}
{%- for m in messages %}{%- if m.role == 'user' %}{% set ns.last_user_index = loop.index0 -%}{%- endif %}{%- endfor %}
{% for m in messages %}
{%- if m.role == 'user' -%}<|user|>
{{ visible_text(m.content) }}
{{- '/nothink' if (enable_thinking is defined and not enable_thinking and not visible_text(m.content).endswith("/nothink")) else '' -}}
{%- elif m.role == 'assistant' -%}
<|assistant|>
{%- set content = visible_text(m.content) %}
{%- set reasoning_content = '' %}
{%- if '</think>' in content %}
    {%- set reasoning_content = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
    {%- set content = content.split('</think>')[-1].lstrip('\n') %}
{%- endif %}
{%- if loop.index0 > ns.last_user_index and reasoning_content -%}{{ '\n<think>' + reasoning_content.strip() +  '</think>'}}{%- else -%}{{ '\n<think></think>' }}{%- endif -%}
{%- if content.strip() -%}{{ '\n' + content.strip() }}{%- endif -%}
{% if m.tool_calls %}
{% for tc in m.tool_calls %}
{%- if tc.function %}{%- set tc = tc.function %}{%- endif %}
{{ '\n<tool_call>' + tc.name }}
{% set _args = tc.arguments %}
{% for k, v in _args.items() %}
<arg_key>{{ k }}</arg_key>
<arg_value>{{ v | tojson(ensure_ascii=False) if v is not string else v }}</arg_value>
{% endfor %}
</tool_call>{% endfor %}
{% endif %}
{%- elif m.role == 'tool' -%}
{%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}{{- '<|observation|>' }}{% endif %}
{{- '\n<tool_response>\n' }}{{- m.content }}{{- '\n</tool_response>' }}
{%- elif m.role == 'system' -%}
<|system|>
{{ visible_text(m.content) }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    <|assistant|>{{- '\n<think></think>' if (enable_thinking is defined and not enable_thinking) else '' -}}
{%- endif -%}"""
STABLELM = r"""{% for message in messages %}{% if message['role'] == 'user' %}<|user|>
{{ message['content'] | trim }}<|endoftext|>
{% elif message['role'] == 'assistant' %}<|assistant|>
{{ message['content'] | trim }}<|endoftext|>
{% else %}<|system|>
{{- '\n' ~ message['content'] | trim }}<|endoftext|>
{%+ endif %}{%- endfor -%}{% if add_generation_prompt %}<|assistant|>
{% endif %}"""
ALPACA = r"""{%- set names = {'user': 'Instruction', 'assistant': 'Response'} -%}
{%- for message in messages -%}
  {%- if message.role == 'system' -%}{{ message.content ~ '\n\n' }}{%- continue -%}{%- endif -%}
  {%- if message.content|length > 400 -%}{%- break -%}{%- endif -%}
  {{ '### %s:\n%s\n\n' % (names[message.role]|default(message.role|title), message.content) }}
{%- else -%}{{ 'nothing' }}{%- endfor -%}{{ '### Response:\n' if add_generation_prompt }}"""
LLAMA2 = r"""{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\n' + system_message + '\n<</SYS>>\n\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"""
TURNS = r"""{%- macro turn(role, end='<|end|>\n') -%}
<|{{ role|upper }}|>{{ caller(role, role|length) if caller else '' }}{{ end }}
{%- for extra in varargs %}[{{ extra }}]{% endfor %}{{ kwargs.note|default('') }}
{%- endmacro -%}
{%- for message in messages %}
{%- call(role, n) turn(message.role, note=loop.index) -%}
{{ n ~ ':' ~ message.content.strip().replace('\n', ' ')[:40] ~ ('...' if message.content|length > 40) }}
{%- endcall %}
{%- set line %}
  {{ loop.cycle('odd', 'even') }} {{ loop.revindex }}/{{ loop.length }}{{ ' changed' if loop.changed(message.role) }}
{% endset %}
{%- set shouted | upper | trim %} {{ line }} {% endset -%}
{{ shouted }}
{% filter replace('<', '(') | replace('>', ')') %}<{{ turn('x', '', 1, 'two') }}>{% endfilter %}
{%- endfor %}
{%- if add_generation_prompt %}{{ turn('assistant', end='') }}{% endif %}"""
TREE = r"""{%- for message in messages recursive %}{{ loop.depth }}.{{ loop.index }} {{ message.role if message.role else message }}{% if message.content is string and message.content %} {{ loop(message.content.split()[:3]) }}{% endif %};{% endfor -%}
{% raw %}{{ not run }} {% if %}{% endraw %}
{%- for role, group in {'user': 'U', 'assistant': 'A', 'system': 'S'}|dictsort %} {{ role ~ '=' ~ messages|selectattr('role', 'eq', role)|map(attribute='content')|map('trim')|join('|') ~ group }}{% endfor %}
{{ messages|map(attribute='role')|unique|list }} {{ messages|map(attribute='content')|map('length')|sort(reverse=true)|list }} {{ messages|map(attribute='content')|map('length')|sum }} {{ [3, 1.5, 2]|max ~ [3, 1.5, 2]|min }}
{{ messages|rejectattr('role', 'in', ['system', 'tool'])|list|length }} {{ (messages|last).role }} {{ 7 // 2 ~ 7 % 3 ~ -7 // 2 ~ 2 ** 5 ~ 7 / 2 }} {{ 'é\x41\u00df' 'x'|upper }}
{{ {'a': [1, none, true], "b'": ('x', 1.0, 1e20)} }} {{ '%05d|%-6s|%6.2f' % (42, 'ab', 3.14159) }} {{ 1 < 2 < 3 }} {{ [1, 2] + [3] }} {{ 'abc'[::-1] }} {{ 'a,b,,c'.split(',', 2) }} {{ 'a b'.title() }} {{ "it's"|title }} {{ '\u00e9\u00df \u03c9\u00aax'.title() ~ '\u00df(\u0444'|title }}
{% if false %}{{ messages|from_json }}{{ messages is nosuch }}{% endif %}{{ none|selectattr('a')|list }} {{ false|map('upper')|list }}"""

NAMES = {
    "ChatML": (CHATML + ASK, {}), "ChatML, no prompt": (CHATML + ASK, {"add_generation_prompt": False}), "Yi": (YI, {}), "Bielik": (BIELIK, S),
    "Hermes 2 Pro": (HERMES, S), "Hermes 2 Pro, tools": (HERMES, S | TOOLS), "Qwen2.5": (QWEN25, {}), "Qwen2.5, tools": (QWEN25, TOOLS),
    "Qwen3": (QWEN3, {}), "Qwen3, thinking": (QWEN3, THINK), "Qwen3, no thinking": (QWEN3, NO_THINK), "Qwen3, tools": (QWEN3, TOOLS | NO_THINK),
    "Qwen3 Coder": (QWEN3_CODER, {}), "Qwen3 Coder, tools": (QWEN3_CODER, TOOLS), "SmolLM3": (SMOLLM3, {}), "SmolLM3, no thinking": (SMOLLM3, NO_THINK),
    "SmolLM3, tools": (SMOLLM3, TOOLS), "Llama 2": (LLAMA2, S), "Llama 3": (LLAMA3, S), "Llama 3.1": (LLAMA31, S), "Llama 3.1, tools": (LLAMA31, S | TOOLS),
    "Llama 3.1, tools in the system turn": (LLAMA31, S | TOOLS | {"tools_in_user_message": False, "date_string": "1 Jan 2030"}),
    "Llama 3.1, builtin tools": (LLAMA31, S | {"builtin_tools": ["code_interpreter", "brave_search", "add"]}), "Llama 3.2": (LLAMA32, S), "Llama 3.2, tools": (LLAMA32, S | TOOLS),
    "Llama 4": (LLAMA4, S), "Nemotron": (NEMOTRON, S), "Nemotron, thinking": (NEMOTRON, S | {"thinking": True}), "Mistral 7B v0.1": (MISTRAL1, S),
    "Mistral 7B v0.3": (MISTRAL3, S), "Mistral Nemo, tools": (MISTRAL3, S | TOOLS), "Mistral Small": (MISTRAL_SMALL, S), "Gemma 2": (GEMMA2, {"bos_token": "<bos>"}),
    "Gemma 3": (GEMMA3, {"bos_token": "<bos>"}), "Gemma 3, no prompt": (GEMMA3, {"bos_token": "<bos>", "add_generation_prompt": False}), "Phi-3": (PHI3, S),
    "Phi-3, no prompt": (PHI3, S | {"add_generation_prompt": False}), "Phi-3.5": (PHI35, S), "Phi-4": (PHI4, S), "Phi-4 mini": (PHI4_MINI, S), "DeepSeek-R1": (DEEPSEEK_R1, S),
    "DeepSeek-R1, no prompt": (DEEPSEEK_R1, S | {"add_generation_prompt": False}), "DeepSeek-V3.1": (DEEPSEEK_V3, S), "DeepSeek-V3.1, thinking": (DEEPSEEK_V3, S | {"thinking": True}),
    "gpt-oss": (HARMONY, {}), "gpt-oss, tools": (HARMONY, TOOLS | {"reasoning_effort": "high"}), "Granite 3": (GRANITE, {}),
    "Granite 3, tools": (GRANITE, TOOLS | {"documents": [{"title": "a b", "text": "One\ntwo"}, {"title": "c", "text": "\u00e9"}], "controls": {"length": "short"}}), "OLMo 2": (OLMO2, S),
    "OLMo 3": (OLMO3, {"eos_token": "<|im_end|>"}), "OLMo 3, tools": (OLMO3, TOOLS | {"eos_token": "<|im_end|>"}), "OLMo 3 Think": (OLMO3_THINK, {"eos_token": "<|im_end|>"}),
    "Command R": (COMMAND_R, S), "Command R, tools": (COMMAND_R_TOOLS, S | TOOLS), "Command R, documents": (COMMAND_R_TOOLS, S | {"documents": [{"title": "the new-world", "text": "a\nb"}]}),
    "Zephyr": (ZEPHYR, S), "Vicuna": (VICUNA, S), "Falcon": (FALCON, {}), "Falcon 3": (FALCON3, S), "InternLM": (INTERNLM, S), "EXAONE": (EXAONE, {}), "GLM-4": (GLM4, {}),
    "GLM-4, tools": (GLM4, TOOLS | NO_THINK), "StableLM": (STABLELM, {}), "Alpaca": (ALPACA, {}), "calls and blocks": (TURNS, {}), "recursion and filters": (TREE, {})}
