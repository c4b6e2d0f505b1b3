// llama.cpp's side of turns.py: the model of the first argument, with as many threads as the second says.
//
// Lines on stdin: `decode N id ...`: seconds a token over N - 1 greedy tokens after the prompt; `prefill id ...`: seconds a token of
// the prompt; `forced FILE id ... | id ...`: before each token of the answer the logits of the whole vocabulary, as f32 into the file.
// Timed are llama_decode and llama_get_logits_ith, which waits for the result; the choice of a token is not.

#include "llama.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

using Tokens = std::vector<llama_token>;

/// Tokens that llama.cpp takes at once.
constexpr size_t AT_ONCE = 512;
constexpr int CONTEXT = 2048;

struct Engine {
    llama_context *context;
    int vocabulary;
    float *logits = nullptr;

    double step(Tokens tokens) {
        const auto begun = std::chrono::steady_clock::now();
        if (llama_decode(context, llama_batch_get_one(tokens.data(), int(tokens.size())))) {
            std::cerr << "llama_decode failed\n";
            std::exit(1);
        }
        logits = llama_get_logits_ith(context, -1);
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    }

    double prefill(const Tokens &prompt) {
        llama_memory_clear(llama_get_memory(context), true);
        double seconds = 0;
        for (size_t at = 0; at < prompt.size(); at += AT_ONCE) {
            seconds += step({prompt.begin() + at, prompt.begin() + std::min(prompt.size(), at + AT_ONCE)});
        }
        return seconds;
    }

    double decode(int count) {
        double seconds = 0;
        for (int i = 0; i < count; i++) {
            seconds += step({llama_token(std::max_element(logits, logits + vocabulary) - logits)});
        }
        return seconds;
    }
};

Engine load(const char *file, int threads) {
    llama_backend_init();
    llama_model *model = llama_model_load_from_file(file, llama_model_default_params());
    llama_context_params params = llama_context_default_params();
    params.n_ctx = CONTEXT;
    params.n_batch = params.n_ubatch = AT_ONCE;
    params.n_threads = params.n_threads_batch = threads;
    llama_context *context = model ? llama_init_from_model(model, params) : nullptr;
    if (!context) {
        std::exit(1);
    }
    return {context, llama_vocab_n_tokens(llama_model_get_vocab(model))};
}

Tokens read(std::istringstream &line) {
    Tokens tokens;
    for (std::string word; line >> word && word != "|";) {
        tokens.push_back(std::atoi(word.c_str()));
    }
    return tokens;
}

int main(int count, char **arguments) {
    if (count != 3) {
        std::cerr << "usage: step MODEL.gguf THREADS\n";
        return 2;
    }
    Engine engine = load(arguments[1], std::atoi(arguments[2]));
    std::printf("ready\n");
    std::fflush(stdout);
    for (std::string text; std::getline(std::cin, text);) {
        std::istringstream line(text);
        std::string what;
        line >> what;
        if (what == "decode") {
            int tokens = 0;
            line >> tokens;
            engine.prefill(read(line));
            std::printf("%.9f\n", engine.decode(tokens - 1) / (tokens - 1));
        } else if (what == "prefill") {
            const Tokens prompt = read(line);
            std::printf("%.9f\n", engine.prefill(prompt) / double(prompt.size()));
        } else {
            std::string name;
            line >> name;
            const Tokens prompt = read(line), answer = read(line);
            engine.prefill(prompt);
            std::ofstream file(name, std::ios::binary);
            for (const llama_token token : answer) {
                file.write(reinterpret_cast<const char *>(engine.logits), engine.vocabulary * sizeof(float));
                engine.step({token});
            }
            file.close();
            std::printf("ok\n");
        }
        std::fflush(stdout);
    }
}
