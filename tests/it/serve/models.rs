//! Model directories that are broken in one place each: the message names the file, the cause and what
//! would be right; exit code 5; nothing listens.

use super::answers::with;
use fixture::embedded;
use fixture::http;
use fixture::process::{Server, run_to_end};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// A copy of the embedded model's directory.
struct Model {
    folder: TempDir,
}

impl Model {
    fn copy() -> Self {
        let folder = embedded::copied();
        Self { folder }
    }

    /// A copy of a model whose layers keep recurrent states.
    fn hybrid() -> Self {
        let folder = embedded::copied_model("tiny-qwen3.5");
        Self { folder }
    }

    /// Its chat template is this one.
    fn with_template(template: &str) -> Self {
        let model = Self::copy();
        fs::write(model.path("chat_template.jinja"), template).unwrap();
        model
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    #[track_caller]
    fn edit(&self, name: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.path(name)).unwrap();
        assert!(text.contains(from), "`{from}` is not in {name}:\n{text}");
        fs::write(self.path(name), text.replace(from, to)).unwrap();
    }

    /// Edits its configuration.
    fn configured(self, edit: impl FnOnce(&mut Value)) -> Self {
        let text = fs::read_to_string(self.path(CONFIG)).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        edit(&mut config);
        fs::write(self.path(CONFIG), config.to_string()).unwrap();
        self
    }

    fn serve(&self) -> Server {
        Server::start(&["--model", self.folder.path().to_str().unwrap()])
    }

    #[track_caller]
    fn refused(&self, parts: &[&str]) {
        self.refused_by(5, parts);
    }

    #[track_caller]
    fn refused_by(&self, exit: i32, parts: &[&str]) {
        let path = self.folder.path().to_str().unwrap();
        let (code, stderr) = run_to_end(&["--port", "0", "--model", path]);
        assert_eq!(code, Some(exit), "{stderr}");
        for part in parts {
            assert!(stderr.contains(part), "`{part}` is missing in:\n{stderr}");
        }
        assert!(!stderr.contains("listening on"), "{stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
}

const CONFIG: &str = "config.json";
const WEIGHTS: &str = "model.safetensors";

#[test]
fn missing_files() {
    for file in [CONFIG, "tokenizer.json", WEIGHTS] {
        let model = Model::copy();
        fs::remove_file(model.path(file)).unwrap();
        // Without its configuration a folder is no model.
        model.refused_by(if file == CONFIG { 2 } else { 5 }, &[file]);
    }
}

#[test]
fn truncated_weights() {
    let whole = fs::read(Model::copy().path(WEIGHTS)).unwrap();
    for length in [0, 4, 100, whole.len() / 2, whole.len() - 1] {
        let model = Model::copy();
        fs::write(model.path(WEIGHTS), &whole[..length]).unwrap();
        model.refused(&[WEIGHTS]);
    }
}

#[test]
fn a_header_that_promises_too_much() {
    let model = Model::copy();
    let mut bytes = fs::read(model.path(WEIGHTS)).unwrap();
    bytes[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    fs::write(model.path(WEIGHTS), bytes).unwrap();
    model.refused(&[WEIGHTS]);
}

#[test]
fn wrong_shapes_name_the_tensor_and_both_shapes() {
    let model = Model::copy();
    model.edit(
        CONFIG,
        "\"intermediate_size\": 384",
        "\"intermediate_size\": 400",
    );
    model.refused(&["mlp.", "400", "384"]);
    let model = Model::copy();
    model.edit(CONFIG, "\"vocab_size\": 448", "\"vocab_size\": 449");
    model.refused(&["embed_tokens", "449", "448"]);
}

#[test]
fn hybrids_name_the_tensor_and_the_key() {
    let with = |edit: fn(&mut Value)| Model::hybrid().configured(edit);
    with(|config| config["linear_num_value_heads"] = json!(8)).refused(&[
        "linear_attn.in_proj_qkv",
        "[256, 128]",
        "[384, 128]",
    ]);
    with(|config| config["linear_conv_kernel_dim"] = json!(3))
        .refused(&["linear_attn.conv1d", "[256, 1, 4]"]);
    with(|config| config["layer_types"][2] = json!("linear_attention"))
        .refused(&["layers.2.linear_attn", "is missing"]);
    with(|config| config["layer_types"][2] = json!("sliding_attention"))
        .refused(&[CONFIG, "sliding-window"]);
    with(|config| config["linear_num_key_heads"] = json!(3))
        .refused(&[CONFIG, "not a multiple of"]);
    let huge = json!(1 << 20);
    Model::hybrid()
        .configured(|config| {
            for key in [
                "linear_num_value_heads",
                "linear_key_head_dim",
                "linear_value_head_dim",
            ] {
                config[key] = huge.clone();
            }
        })
        .refused(&[CONFIG, "a sequence's recurrent state would be more numbers"]);
    // The experts that this says there are, are not stored.
    with(|config| {
        config["architectures"] = json!(["Qwen3_5MoeForCausalLM"]);
        config["model_type"] = json!("qwen3_5_moe_text");
        config["num_experts"] = json!(4);
        config["num_experts_per_tok"] = json!(2);
        config["moe_intermediate_size"] = json!(64);
        config["shared_expert_intermediate_size"] = json!(64);
    })
    .refused(&["layers.0.mlp.experts.0.gate_proj", "is missing"]);
}

/// Where CUDA is asked for by name, a model that is computed on the CPU alone is refused.
#[test]
fn experts_are_refused_by_cuda() {
    let model = Model::hybrid().configured(|config| {
        config["architectures"] = json!(["Qwen3_5MoeForCausalLM"]);
        config["model_type"] = json!("qwen3_5_moe_text");
        config["num_experts"] = json!(4);
        config["num_experts_per_tok"] = json!(2);
        config["moe_intermediate_size"] = json!(64);
        config["shared_expert_intermediate_size"] = json!(64);
    });
    let path = model.folder.path().to_str().unwrap();
    let (code, stderr) = run_to_end(&["--port", "0", "--backend", "cuda", "--model", path]);
    assert_eq!(code, Some(5), "{stderr}");
    assert!(
        stderr.contains("it is computed on the CPU alone"),
        "{stderr}"
    );
}

#[test]
fn a_hybrid_is_served() {
    let model = Model::hybrid();
    let path = model.folder.path().to_str().unwrap();
    let server = Server::start(&["--backend", "auto", "--model", path]);
    let body = json!({"prompt": [5, 6, 7, 8], "max_tokens": 4, "ignore_eos": true});
    let answer = http::post(server.address, "/v1/completions", &body);
    assert_eq!(answer.status, 200);
    let metrics = http::get(server.address, "/metrics").text();
    let kept = metrics
        .lines()
        .find(|line| line.starts_with("infergate_state_bytes_cached"));
    let kept: f64 = kept.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    // Four layers of 4 heads of 32 × 32 numbers and three inputs of 256 channels.
    assert!(
        (kept - f64::from(4 * 4 * (4 * 32 * 32 + 3 * 256))).abs() < 0.5,
        "{kept}"
    );
}

/// transformers 4 reads the first, transformers 5 the second.
#[test]
fn two_bases_of_the_rotary_embedding() {
    for place in ["rope_parameters", "rope_scaling"] {
        let with = |theta: f64| {
            Model::copy().configured(|config| {
                config["rope_theta"] = json!(10_000.0);
                config[place] = json!({"rope_type": "default", "rope_theta": theta});
            })
        };
        let nested = format!("`{place}.rope_theta` = 5000000");
        with(5e6).refused(&[CONFIG, "`rope_theta` = 10000", &nested]);
        with(10_000.0).serve();
    }
}

/// The model with one part of its tokenizer replaced, as JSON text.
fn with_tokenizer(key: &str, value: &str) -> Model {
    let model = Model::copy();
    let text = fs::read_to_string(model.path("tokenizer.json")).unwrap();
    let mut tokenizer: Value = serde_json::from_str(&text).unwrap();
    tokenizer[key] = json!("HERE");
    let text = tokenizer.to_string().replace("\"HERE\"", value);
    fs::write(model.path("tokenizer.json"), text).unwrap();
    model
}

/// The tokenizers library panics at these.
#[test]
fn a_tokenizer_that_nests_without_end_or_names_no_token() {
    for key in ["decoder", "normalizer"] {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        with_tokenizer(key, &deep).refused(&["tokenizer.json", "recursion limit"]);
    }
    let template = json!({
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [],
        "special_tokens": {},
    });
    let sequence = json!({"type": "Sequence", "processors": [template]});
    for value in [template, sequence] {
        let model = with_tokenizer("post_processor", &value.to_string());
        model.refused(&["tokenizer.json", "`[CLS]`"]);
    }
}

/// It panics at the text of some tokens: those have none, and the engine lives on.
#[test]
fn a_decoder_that_panics_ends_no_engine() {
    let strip = r#"{"type": "Strip", "content": "0", "start": 1, "stop": 1}"#;
    let server = with_tokenizer("decoder", strip).serve();
    let prompt = format!("Hello w\u{f6}rld <|im_start|> {}", "a".repeat(50));
    let body = json!({"prompt": prompt, "max_tokens": 40, "temperature": 0, "stop": ["zz"]});
    let answer = http::post(server.address, "/v1/completions", &body);
    assert_eq!(answer.status, 200);
    assert_eq!(http::get(server.address, "/health").status, 200);
}

#[test]
fn a_layer_that_is_not_there() {
    let model = Model::copy().configured(|config| {
        config["num_hidden_layers"] = json!(6);
        config["layer_types"] = json!(null);
    });
    model.refused(&["model.layers.5."]);
}

#[test]
fn architectures_that_are_not_supported() {
    let model = Model::copy();
    model.edit(CONFIG, "Qwen3ForCausalLM", "LlamaForCausalLM");
    model.refused(&["LlamaForCausalLM", "Qwen3ForCausalLM"]);
    let model = Model::copy();
    model.edit(
        CONFIG,
        "\"hidden_act\": \"silu\"",
        "\"hidden_act\": \"gelu\"",
    );
    model.refused(&["hidden_act", "gelu", "silu"]);
    let model = Model::copy();
    model.edit(
        CONFIG,
        "\"rope_type\": \"default\"",
        "\"rope_type\": \"yarn\"",
    );
    model.refused(&["rope", "yarn"]);
}

/// Each would be served as another model than it is.
#[test]
fn what_changes_the_mathematics_is_refused() {
    for (key, value, words) in [
        ("mlp_bias", json!(true), "mlp_bias = true"),
        ("use_qk_norm", json!(false), "use_qk_norm = false"),
        (
            "final_logit_softcapping",
            json!(30.0),
            "a soft cap on logits",
        ),
        ("compression_config", json!({}), "quantization"),
        ("model_type", json!("gemma2"), "gemma2"),
        (
            "layer_types",
            json!(["full_attention"]),
            "`layer_types` has 1 entries",
        ),
        (
            "layer_types",
            json!(vec!["linear_attention"; 5]),
            "a layer of type `linear_attention`",
        ),
        (
            "layer_types",
            json!(vec!["sliding_attention"; 5]),
            "sliding-window attention",
        ),
    ] {
        let model = Model::copy().configured(|config| config[key] = value);
        model.refused(&[CONFIG, words]);
    }
    let model = Model::copy();
    fs::write(model.path("quantize_config.json"), "{}").unwrap();
    model.refused(&["quantize_config.json", "quantization"]);
}

#[test]
fn tensors_that_nothing_is_computed_from_are_named() {
    let cut = Model::copy().configured(|config| {
        config["num_hidden_layers"] = json!(4);
        config["layer_types"] = json!(null);
    });
    let server = cut.serve();
    let warned = |line: &String| {
        line.starts_with("warning: ")
            && line.contains("11 tensors")
            && line.contains("`model.layers.4.")
    };
    assert!(server.start.iter().any(warned), "{:#?}", server.start);
    let whole = Model::copy().serve();
    assert!(!whole.start.iter().any(|line| line.starts_with("warning: ")));
}

#[test]
fn numbers_that_make_no_model() {
    for (from, to) in [
        ("\"num_attention_heads\": 4", "\"num_attention_heads\": 0"),
        ("\"num_attention_heads\": 4", "\"num_attention_heads\": 3"),
        ("\"head_dim\": 48", "\"head_dim\": 47"),
        ("\"num_hidden_layers\": 5", "\"num_hidden_layers\": -5"),
        ("\"hidden_size\": 128", "\"hidden_size\": \"many\""),
    ] {
        let model = Model::copy();
        model.edit(CONFIG, from, to);
        model.refused(&[CONFIG]);
    }
}

/// Such a model is served, but not for chats: that is no fault of the request.
#[test]
fn a_model_without_a_usable_template_completes_but_does_not_chat() {
    let broken = Model::with_template("{% if %}");
    let bare = Model::copy();
    fs::remove_file(bare.path("chat_template.jinja")).unwrap();
    for (model, cause) in [(broken, "cannot be parsed"), (bare, "no chat template")] {
        let server = model.serve();
        let warned = |line: &String| line.starts_with("warning: ") && line.contains(cause);
        assert!(server.start.iter().any(warned), "{:#?}", server.start);
        let body = json!({"messages": [{"role": "user", "content": "a"}]});
        let refused = server.post("/v1/chat/completions", &body);
        assert_eq!(refused.status, 501);
        let error = refused.json()["error"].clone();
        assert_eq!(
            (&error["code"], &error["param"]),
            (&json!("no_chat_template"), &json!(null))
        );
        server.complete(json!({"prompt": "a"}));
    }
}

fn chat(content: &str, messages: usize) -> Value {
    let message = json!({"role": "user", "content": content});
    json!({"messages": vec![message; messages], "max_tokens": 1})
}

const ENDLESS: &str =
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";

/// What the template says of the messages is the request's fault; what goes wrong in it, the model's.
#[test]
fn a_template_that_fails_is_no_fault_of_the_request() {
    let raises =
        "{% macro refuse() %}{{ raise_exception('no turns') }}{% endmacro %}{{ refuse() }}";
    for (template, status, code, words) in [
        (
            raises,
            400,
            "invalid_value",
            "refused the messages: no turns",
        ),
        (
            "{{ nothing.at.all }}",
            500,
            "chat_template_failed",
            "undefined",
        ),
        (
            ENDLESS,
            500,
            "chat_template_failed",
            "10000 instructions a message",
        ),
    ] {
        let server = Model::with_template(template).serve();
        let refused = server.post("/v1/chat/completions", &chat("a", 1));
        assert_eq!(refused.status, status, "{template}");
        let error = refused.json()["error"].clone();
        assert_eq!(error["code"], code);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(words), "{message}");
        server.complete(json!({"prompt": "a"}));
    }
}

/// Few instructions, each of which takes long.
const HEAVY: &str = "{% for a in range(1500) %}{% set b = range(99999)|sort|length %}{% endfor %}";

/// Many messages may run many instructions, and one instruction any time: on threads of their own, for which the end does
/// not wait.
#[test]
fn a_template_that_takes_long_delays_nobody() {
    for (template, messages) in [(ENDLESS, 50_000), (HEAVY, 1)] {
        let mut server = Model::with_template(template).serve();
        let body = chat("", messages).to_string();
        let request = http::post_bytes("/v1/chat/completions", "application/json", &body);
        let _chats: Vec<_> = (0..8)
            .map(|_| http::send(server.address, &request))
            .collect();
        for _ in 0..100 {
            assert_eq!(server.get("/health").status, 200);
        }
        server.signal(Signal::SIGTERM);
        server.signal(Signal::SIGINT);
        assert_eq!(server.exit_code(), Some(130));
    }
}

/// What transformers gives to a template.
#[test]
fn a_template_finds_what_it_was_written_for() {
    let server = Model::with_template(
        "{% if tools is none and documents is none %}{{ strftime_now('%Y') }}{% endif %}",
    )
    .serve();
    let answer = server.ok("/v1/chat/completions", chat("a", 1)).json();
    let year = server.complete(json!({"prompt": "2025", "max_tokens": 1}));
    assert_eq!(
        answer["usage"]["prompt_tokens"],
        year["usage"]["prompt_tokens"]
    );
}

/// As in transformers and vLLM.
#[test]
fn a_tokenizer_that_cuts_and_fills_up_does_neither() {
    let model = Model::copy();
    for (from, to) in [
        (
            "\"truncation\": null",
            r#""truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}"#,
        ),
        (
            "\"padding\": null",
            r#""padding": {"strategy": {"Fixed": 32}, "direction": "Right", "pad_to_multiple_of": null,
                "pad_id": 0, "pad_type_id": 0, "pad_token": "<|endoftext|>"}"#,
        ),
    ] {
        model.edit("tokenizer.json", from, to);
    }
    let ids = |server: &Server| {
        let body = json!({"prompt": "12+34=46, 5+6=11", "max_tokens": 1, "return_token_ids": true});
        server.complete(body)["choices"][0]["prompt_token_ids"].clone()
    };
    assert_eq!(ids(&model.serve()), ids(&Server::start(&[])));
}

#[test]
fn an_index_without_a_tensor() {
    let model = Model::copy();
    fs::remove_file(model.path(WEIGHTS)).unwrap();
    let index = "model.safetensors.index.json";
    fs::write(model.path(index), r#"{"weight_map": {}}"#).unwrap();
    model.refused(&[index, "names no tensor"]);
}

/// A pipe that nobody writes to could be waited for without an end.
#[test]
fn files_that_are_none() {
    for file in [CONFIG, WEIGHTS] {
        let model = Model::copy();
        fs::remove_file(model.path(file)).unwrap();
        nix::unistd::mkfifo(&model.path(file), nix::sys::stat::Mode::S_IRWXU).unwrap();
        model.refused(&[file, "no regular file"]);
    }
}

#[test]
fn sizes_whose_product_overflows() {
    let model = Model::copy();
    let kinds = [r#""full_attention""#; 5].join(",\n    ");
    model.edit(CONFIG, &format!("[\n    {kinds}\n  ]"), "null");
    for (from, to) in [
        ("\"num_hidden_layers\": 5", "\"num_hidden_layers\": 2097152"),
        (
            "\"num_attention_heads\": 4",
            "\"num_attention_heads\": 1048576",
        ),
        ("\"head_dim\": 48", "\"head_dim\": 1048576"),
    ] {
        model.edit(CONFIG, from, to);
    }
    let text = fs::read_to_string(model.path(CONFIG)).unwrap();
    let heads = text.replace(
        "\"num_key_value_heads\": ",
        "\"num_key_value_heads\": 1048576, \"_\": ",
    );
    fs::write(model.path(CONFIG), heads).unwrap();
    model.refused(&[CONFIG, "more numbers than can be held"]);
}

/// What a request leaves out is the model's own, as vLLM has it.
#[test]
fn a_model_that_samples_by_its_own_rules() {
    let model = Model::copy();
    let own = "\"do_sample\": true, \"temperature\": 2.0";
    model.edit("generation_config.json", "\"do_sample\": false", own);
    let server = model.serve();
    let ask = |more: Value| {
        let body = json!({"prompt": "12+34=", "max_tokens": 32, "ignore_eos": true});
        server.complete(with(body, more))["choices"].clone()
    };
    assert_ne!(ask(json!({})), ask(json!({})));
    assert_eq!(ask(json!({"seed": 5})), ask(json!({"seed": 5})));
    let greedy = json!({"temperature": 0});
    assert_eq!(ask(greedy.clone()), ask(greedy));
}

#[test]
fn json_that_does_not_read() {
    for file in [CONFIG, "tokenizer.json", "generation_config.json"] {
        let model = Model::copy();
        fs::write(model.path(file), "{ not json").unwrap();
        model.refused(&[file]);
    }
}
