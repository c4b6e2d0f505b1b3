// A block of the kernels for attention of single rows, from its place in the grid to what it stores. What differs
// between them is the Source of its queries:
//
//   MAKES_OWN          whether it makes the row's own key and value too. If so the cache holds the others since earlier
//                      steps, else all of them once earlier kernels have ended
//   load_queries(block, team, is_far)  the team's part of the queries, in powers of two; is_far: as they see the sink
//   fetch(block)       ahead of earlier kernels' end; this and what follows only where it MAKES_OWN
//   make(block, own, sees_sink)  what earlier kernels wrote is there now; `own`: the position of the own key where the
//                      block has it, else negative
//   take_own(block, team)  by one warp: its team attends to the own key
//
// The kernel's arguments for it have `of(block)`, which gives the block's Source.
#pragma once

#include "attention_join.cuh"

/// What a block has to do.
struct Block {
    Place place;
    /// The row's place in the step.
    int index;
    Row row;
    Outputs outputs;
    Sight sight;
    Share share;
    float scale;
    Joint joint;
};

template <int H, int LANES, int PACKS, class Source>
__device__ __forceinline__ void run(const Block &block, const Source &source) {
    Team<H, LANES, PACKS> team;
    const Row &row = block.row;
    const Sight &sight = block.sight;
    const Share share = block.share;
    if (share.first >= share.end) {
        wait_for_earlier_kernels();
        finish_empty(block.outputs.of(block.place));
        return;
    }
    // The greatest number is the row's own.
    const bool has_own = Source::MAKES_OWN && share.end == sight.count;
    const int end = has_own ? share.end - 1 : share.end;
    const int near = share.first > sight.sink ? share.first : sight.sink;
    const bool sees_sink = share.first < sight.sink;
    // Eight heads leave no registers for what is known so early.
    const bool is_found = H < 8 && !sees_sink, has_departed = is_found && Source::MAKES_OWN;
    if (is_found) {
        team.find(row, near, end, sight.skip);
    }
    if (has_departed) {
        team.depart(row, near, end, sight.skip);
    }
    if constexpr (Source::MAKES_OWN) {
        source.fetch(block);
    }
    wait_for_earlier_kernels();
    if constexpr (Source::MAKES_OWN) {
        source.make(block, has_own ? sight.count - 1 + sight.skip : -1, sees_sink);
    }
    team.begin();
    if (sees_sink) {
        const int until = end < sight.sink ? end : sight.sink;
        source.load_queries(block, team, true);
        team.find(row, share.first, until, 0);
        team.depart(row, share.first, until, 0);
        team.attend(row, share.first, until, 0);
    }
    if (share.end > sight.sink) {
        source.load_queries(block, team, false);
        if constexpr (Source::MAKES_OWN) {
            if (has_own && warp_index() == 0) {
                source.take_own(block, team);
            }
        }
        if (!is_found) {
            team.find(row, near, end, sight.skip);
        }
        if (!has_departed) {
            team.depart(row, near, end, sight.skip);
        }
        team.attend(row, near, end, sight.skip);
    }
    finish(team, block.outputs.of(block.place), block.joint);
}

/// A whole kernel, for up to H query heads a block; all but the first as attention_rows.cu has them.
template <int H, class Arguments>
__device__ __forceinline__ void attend_row(const Arguments &arguments, const element *keys, const element *values,
                                           const int *pages, const Split *splits, float *partial, float *partial_ml,
                                           int *arrived, element *out, int heads, int kv_heads, int d, float scale,
                                           int sink, int window) {
    allow_next_kernel();
    // Of a step's integers, which are copied here ahead of all its kernels, much is read before what earlier
    // kernels write: `run` waits for those.
    const Split split = splits[blockIdx.y];
    if (split.row < 0) {
        wait_for_earlier_kernels();
        return;
    }
    const Place place = Place::of_block<H>(heads, kv_heads);
    const Sight sight = sight_of(split.position, sink, window);
    JOINT(H, joint);
    const Block block = {place,
                         split.row,
                         {keys, values, pages + split.first_page, kv_heads, place.kv_head, d, split.gap,
                          divided_up(sink, PAGE_TOKENS)},
                         {splits, partial, partial_ml, arrived, out, heads, d},
                         sight,
                         share_of(sight, split.part, split.parts),
                         scale,
                         joint};
    const auto source = arguments.of(block);
    const int bytes = d * int(sizeof(element));
    if (bytes <= 128) {
        run<H, 8, 1>(block, source);
    } else if (bytes <= 256) {
        run<H, 16, 1>(block, source);
    } else if (bytes <= 512) {
        run<H, 32, 1>(block, source);
    } else {
#if ELEMENT == 2
        run<H, 32, 2>(block, source);
#endif
    }
    const Results results = block.outputs.of(place);
    if (results.parts > 1 && is_last(results)) {
        join_blocks(results, joint);
    }
}
