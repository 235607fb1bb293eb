#include "engine/core/files/weights/config_keys.h"

#include <algorithm>
#include <iterator>

#include "engine/core/support/unread_keys.h"

namespace kvscope {
namespace {

constexpr std::string_view kRead[] = {"architectures",
                                      "model_type",
                                      "vocab_size",
                                      "hidden_size",
                                      "intermediate_size",
                                      "num_hidden_layers",
                                      "num_attention_heads",
                                      "num_key_value_heads",
                                      "head_dim",
                                      "max_position_embeddings",
                                      "rms_norm_eps",
                                      "tie_word_embeddings",
                                      "hidden_act",
                                      "dtype",
                                      "torch_dtype",
                                      "eos_token_id",
                                      "bos_token_id",
                                      "rope_theta",
                                      "rope_scaling",
                                      "rope_parameters",
                                      "original_max_position_embeddings",
                                      "partial_rotary_factor",
                                      "quantization_config",
                                      "attention_bias",
                                      "mlp_bias",
                                      "lm_head_bias",
                                      "layer_types"};

/// Read of the families that have windows (ModelFamily::windows).
constexpr std::string_view kWindows[] = {"sliding_window", "use_sliding_window", "max_window_layers"};

/// Of no effect on a forward pass of these families: training, other programs' outputs and devices, where a file came
/// from, and the settings of generation that old files have here.
constexpr std::string_view kHarmless[] = {
    // training
    "attention_dropout", "hidden_dropout", "dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop", "initializer_range",
    "gradient_checkpointing", "neftune_noise_alpha", "router_aux_loss_coef", "output_router_logits",
    // programs
    "transformers_version", "_name_or_path", "name_or_path", "_commit_hash", "use_cache", "_attn_implementation",
    "attn_implementation", "_attn_implementation_autoset", "cache_implementation", "_flash_attn_2_enabled",
    "experts_implementation", "output_attentions", "output_hidden_states", "return_dict", "use_return_dict",
    "torchscript", "use_bfloat16", "tf_legacy_loss", "pruned_heads", "chunk_size_feed_forward", "pretraining_tp",
    "transformers.js_config", "unsloth_version", "unsloth_fixed", "is_llama_config", "is_decoder", "tokenizer_class",
    "prefix", "finetuned_from", "model_name", "base_model", "license", "_from_model_config", "max_sequence_length",
    "model_max_length", "tokenizer_model_max_length", "tokenizer_padding_side",
    // ids and labels
    "pad_token_id", "sep_token_id", "unk_token_id", "cls_token_id", "mask_token_id", "decoder_start_token_id",
    "bos_token", "eos_token", "pad_token", "unk_token", "id2label", "label2id", "num_labels", "problem_type",
    "finetuning_task", "task_specific_params",
    // generation
    "max_length", "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups", "diversity_penalty",
    "temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty", "length_penalty",
    "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences", "output_scores",
    "return_dict_in_generate", "forced_bos_token_id", "forced_eos_token_id", "remove_invalid_values",
    "exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens"};

}  // namespace

void warn_of_other_keys(const nlohmann::json& config, const ModelFamily& family, const std::string& file,
                        std::vector<std::string>& warnings) {
  std::vector<std::string_view> known(std::begin(kRead), std::end(kRead));
  known.insert(known.end(), std::begin(kHarmless), std::end(kHarmless));
  std::ranges::copy_if(family.keys, std::back_inserter(known), [](std::string_view key) { return !key.empty(); });
  if (family.windows != WindowKeys::none) known.insert(known.end(), std::begin(kWindows), std::end(kWindows));
  if (auto line = unread_keys(config, known, file, "the model may compute something else"))
    warnings.push_back(std::move(*line));
}

}  // namespace kvscope
