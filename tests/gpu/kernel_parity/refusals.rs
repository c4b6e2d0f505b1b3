//! What kernels do not support is an error of the launcher, and nothing is written.

use engine::Element;
use engine::cuda::device::{Device, DeviceError, Memory};
use engine::cuda::launch::{self, Heads, Prefill, Projected, Queries, RowsAttention};

use crate::kernel_parity::lab::Lab;
use crate::on_a_device;

#[test]
fn unsupported_sizes_and_short_rooms_are_refused() {
    on_a_device!(check_refusals, Element::ALL);
}

fn check_refusals<D: Device>(lab: &mut Lab<D>) {
    let (small, large) = (lab.poisoned_floats(64), lab.poisoned_floats(1 << 16));
    let (from, to) = (large.view(), small.view());
    let device = &mut lab.device;
    let unsupported = [
        launch::rms_norm(device, (from, None), 1, None, from, 1e-6, from, 1, 6),
        launch::rms_norm(device, (from, None), 1, None, from, 1e-6, from, 1, 16_388),
        launch::embedding(device, from, 4, from, from, 1, 12),
        launch::gemv(device, from, from, None, from, 9, 8, 8),
        launch::gemv(device, from, from, None, from, 1, 8, 12),
        launch::swiglu(device, from, from, 1, 6),
        launch::add_bias(device, from, from, 1, 6),
        launch::copy_page(device, from, from, 0, 1, 1, 2, 12),
    ];
    for refused in unsupported {
        assert!(
            matches!(refused, Err(DeviceError::Unsupported { .. })),
            "{refused:?}"
        );
    }
    let tiles = Prefill {
        q: from,
        keys: from,
        values: from,
        cache_pages: 1,
        pages: from,
        tiles: from,
        out: from,
        scale: 1.0,
    };
    for d in [8, 24, 272] {
        let heads = Heads {
            heads: 1,
            kv_heads: 1,
            d,
        };
        let refused = launch::attention_prefill(device, &tiles, 1, 1, heads);
        assert!(
            matches!(refused, Err(DeviceError::Unsupported { .. })),
            "{refused:?}"
        );
    }
    let rows = RowsAttention {
        keys: from,
        values: from,
        cache_pages: 1,
        pages: from,
        splits: from,
        split_count: 2,
        is_joined: true,
        partial: from,
        partial_ml: from,
        arrived: from,
        out: from,
        scale: 1.0,
        sink: 0,
        window: 0,
    };
    let queries = Queries {
        q: from,
        q_sink: None,
    };
    let projected = Projected {
        qkv: from,
        q_norm: from,
        k_norm: from,
        eps: 1e-6,
        cos_sin: from,
        sink_cos_sin: None,
    };
    let of_64 = Heads {
        heads: 2,
        kv_heads: 1,
        d: 64,
    };
    let of_24 = Heads { d: 24, ..of_64 };
    for refused in [
        launch::attention_rows(device, &rows, &queries, 1, of_24),
        launch::attention_decode(device, &rows, &projected, 1, of_24),
    ] {
        assert!(
            matches!(refused, Err(DeviceError::Unsupported { .. })),
            "{refused:?}"
        );
    }
    let with_sink = RowsAttention {
        sink: 4,
        window: 16,
        ..rows
    };
    let uncounted = RowsAttention {
        arrived: to.after(64 * 4 - 4),
        ..rows
    };
    let unlisted = RowsAttention {
        splits: to,
        split_count: 4_096,
        ..rows
    };
    let off_by_four = from.after(4);
    let misused = [
        launch::rms_norm(device, (from, None), 1, None, from, 1e-6, to, 1, 4_096),
        launch::rms_norm(
            device,
            (from, Some(to)),
            1,
            None,
            from,
            1e-6,
            from,
            1,
            4_096,
        ),
        launch::add_bias(device, off_by_four, from, 1, 8),
        launch::copy_page(device, from, from, 0, 2, 1, 2, 16),
        launch::gemv(device, to, from, None, from, 1, 64, 64),
        launch::attention_rows(device, &with_sink, &queries, 1, of_64),
        launch::attention_decode(device, &with_sink, &projected, 1, of_64),
        launch::attention_decode(device, &uncounted, &projected, 70, of_64),
        launch::attention_rows(device, &unlisted, &queries, 1, of_64),
    ];
    for refused in misused {
        assert!(
            matches!(refused, Err(DeviceError::Argument { .. })),
            "{refused:?}"
        );
    }
    for memory in [&small, &large] {
        let bytes = lab.bytes(memory);
        assert!(
            bytes.iter().all(|byte| *byte == 0xff),
            "something was written"
        );
    }
}
