//! What keeps a GPU from being used: one line, exit 5, and never a panic.

use crate::driver::fake::FakeGpu;
use crate::driver::start;
use fixture::process::refusal;
use fixture::skip::say;
use std::fs;
use std::process::Command;
use tempfile::TempDir;

#[test]
fn what_is_missing_is_one_line() {
    let Some(gpu) = start::with_kernels() else {
        return;
    };
    for (setting, says) in [
        (
            ("FAKE_CUDA_FAIL", "cuInit:1:100"),
            "no GPU that CUDA can use: no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE)",
        ),
        (
            ("FAKE_CUDA_ARCH", "75"),
            "they need sm_80 or newer, and fake GPU is sm_75",
        ),
        (
            ("FAKE_CUDA_FAIL", "cuMemAlloc_v2:9:2"),
            "bytes of GPU memory could not be had (out of memory (CUDA_ERROR_OUT_OF_MEMORY))",
        ),
        (("FAKE_CUDA_FAIL", "cublasLtCreate:1:1"), "cublasLtCreate"),
        (
            ("FAKE_CUDA_FAIL", "cuModuleLoadData:3:209"),
            "cuModuleLoadData",
        ),
        (
            ("FAKE_CUDA_FAIL", "cuStreamEndCapture:2:901"),
            "the warm-up failed: the GPU failed in cuStreamEndCapture",
        ),
        // What goes wrong within a stage is told there, and its time is that stage's.
        (
            ("FAKE_CUDA_FAIL", "cuStreamSynchronize:1:1"),
            "tensor (the last of them)",
        ),
        (
            ("FAKE_CUDA_FAIL", "cuGraphUpload:1:2"),
            "the warm-up failed: the GPU failed in cuGraphUpload",
        ),
    ] {
        let said = refusal(&start::to_end(&gpu, &[], &[setting]));
        assert!(
            said.starts_with("error: ") && said.contains(says),
            "{setting:?}: {said}"
        );
        gpu.report().is_clean();
    }
}

/// Where there is a compiler; without one it is the kernels that are too new.
#[test]
fn a_driver_that_is_older_than_the_compiler_is_told() {
    let Some(gpu) = start::with_kernels() else {
        return;
    };
    let empty = tempfile::tempdir().unwrap();
    let none = ("INFERGATE_KERNEL_CACHE", empty.path().to_str().unwrap());
    let old = ("FAKE_CUDA_VERSION", "11080");
    let said = refusal(&start::to_end(&gpu, &[], &[none, old]));
    if said.contains("no CUDA compiler") {
        return fixture::skip::skip(&said);
    }
    let says = "and the NVIDIA driver for 11.8; update the driver";
    assert!(said.contains(says), "{said}");
    gpu.report().is_clean();
}

/// A library that lacks a function is told by that function's name: cudarc would panic.
#[test]
fn an_old_library_is_told_by_what_it_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("empty.so");
    let compiler = Command::new("g++")
        .args(["-shared", "-x", "c++", "/dev/null", "-o"])
        .arg(&library)
        .status();
    if let Err(error) = compiler {
        return fixture::skip::skip(&format!("g++ cannot be run: {error}"));
    }
    let gpu = FakeGpu::with(&library);
    let said = refusal(&start::to_end(&gpu, &[], &[]));
    assert!(
        said.contains("is missing; update the NVIDIA driver"),
        "{said}"
    );
}

#[test]
fn a_model_that_does_not_fit_is_told_with_both_sizes() {
    let Some(gpu) = start::with_kernels() else {
        return;
    };
    let said = refusal(&start::to_end(&gpu, &["--synthetic", "qwen3-8b"], &[]));
    // 6 GiB, of which the driver and its libraries are given one.
    let free = format!("{} are free", 5u64 << 30);
    assert!(
        said.contains("bytes of GPU memory could not be had") && said.contains(&free),
        "{said}"
    );
}

#[test]
fn auto_serves_on_the_cpu_and_says_why() {
    let Some(gpu) = start::with_kernels() else {
        return;
    };
    let no_gpu = [("FAKE_CUDA_FAIL", "cuInit:1:100")];
    let server = start::server(&gpu, &["--backend", "auto"], &no_gpu);
    let why = "serving on the CPU: no GPU that CUDA can use";
    assert!(
        server.start.iter().any(|line| line.starts_with(why)),
        "{:#?}",
        server.start
    );
}

/// The kernels in the cache as a compiler of a CUDA that is yet to come would have left them.
fn kernels_of_the_future(gpu: &FakeGpu) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(gpu.kernels()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        // Another test may be writing one.
        if let Some((stem, _version)) = name.split_once("-nvrtc") {
            let newer = format!("{stem}-nvrtc99.0.kernels");
            fs::copy(&path, folder.path().join(newer)).unwrap();
        }
    }
    folder
}

#[test]
fn without_a_compiler_kernels_for_a_newer_driver_are_not_loaded() {
    let Some(gpu) = start::with_kernels() else {
        return;
    };
    let empty = tempfile::tempdir().unwrap();
    let none = ("INFERGATE_KERNEL_CACHE", empty.path().to_str().unwrap());
    let alone = ("LD_LIBRARY_PATH", gpu.libraries().to_str().unwrap());
    // As far as the kernels and no further.
    let end = ("FAKE_CUDA_FAIL", "cuStreamCreate:1:999");
    let said = refusal(&start::to_end(&gpu, &[], &[alone, none, end]));
    if !said.contains("no CUDA compiler") {
        return say("NVRTC is installed where every program finds it");
    }
    let newer = kernels_of_the_future(&gpu);
    let newer = ("INFERGATE_KERNEL_CACHE", newer.path().to_str().unwrap());
    let server = start::server(&gpu, &["--backend", "auto"], &[alone, newer]);
    let why = "serving on the CPU: the kernels in";
    let told = server.start.iter().find(|line| line.starts_with(why));
    let told = told.unwrap_or_else(|| panic!("{:#?}", server.start));
    assert!(told.contains("a newer CUDA than 13.0"), "{told}");
    // With those that the driver loads it needs no compiler.
    let said = refusal(&start::to_end(&gpu, &[], &[alone, end]));
    assert!(said.contains("cuStreamCreate"), "{said}");
}
