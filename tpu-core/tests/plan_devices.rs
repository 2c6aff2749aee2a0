//! Programs of several devices are planned: replicas, which name each other in collectives, and partitions, of which JAX's
//! text says how many there are.
#![allow(clippy::print_stderr, reason = "a test that does not run says so")]

mod pjrt;

use std::sync::OnceLock;
use tpu_core::ErrorKind;
use tpu_core::ir::{samples, text, verify::verify};
use tpu_core::plan::{Compiler, Plan, Program};
use tpu_core::runtime::Cache;

/// Four devices or more of each.
const TARGETS: [&str; 3] = ["v5e:2x2", "v6e:2x2", "tpu7x:2x2x1"];

fn compiler() -> Option<&'static Compiler> {
    static COMPILER: OnceLock<Option<Compiler>> = OnceLock::new();
    let open = || pjrt::plugin(pjrt::TPU).map(|path| Compiler::open(path).unwrap());
    COMPILER.get_or_init(open).as_ref()
}

fn plan(compiler: &Compiler, target: &str, program: &Program) -> Plan {
    compiler.target(target).unwrap().plan(program, &mut |_| {}).unwrap()
}

#[test]
fn every_collective_compiles_among_four_replicas() {
    const NAMES: [&str; 5] = ["all_gather", "all_reduce", "all_to_all", "collective_permute", "reduce_scatter"];
    let Some(compiler) = compiler() else { return };
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::persistent(folder.path()).unwrap();
    let all = samples::every_op();
    for name in NAMES {
        // One of each row, which is a reducer, and of each attribute.
        let of_row = |name: &str| name.strip_suffix(" float32").is_some() || name.ends_with("channel");
        let found: Vec<_> = all.iter().filter(|(sample, _)| sample.starts_with(name) && of_row(sample)).collect();
        assert!(found.len() > 1, "{name}: {}", found.len());
        for (sample, graph) in found {
            let program = Program::from_text(text::print(verify(graph).unwrap())).with_replicas(4);
            for target in TARGETS {
                let plan = plan(compiler, target, &program);
                let figures = match &plan.outcome {
                    Ok(figures) => figures,
                    Err(refusal) => panic!("{sample} for {target}: {}", refusal.error),
                };
                // No runtime would load it.
                let error = figures.store(&cache).unwrap_err();
                assert!(error.message().contains("a program for one device, got one for 4"), "{error}");
                assert_eq!(plan.used, 4);
            }
        }
    }
}

/// `jax.jit(f).lower(x).as_text()` of JAX 0.10.2, with `f` a `shard_map` over four devices of `psum`, `all_gather`,
/// `psum_scatter`, `all_to_all` and `ppermute`; less the names of results.
const SHARD_MAP: &str = r##"
module @jit_body attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["d"=4]> {stablehlo.mesh = {axes = [{name = "d", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"d"}, {}]>}) -> (tensor<16x128xf32>, tensor<64x128xf32>, tensor<16x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>) {
    %0:5 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"d"}, {}]>] out_shardings=[<@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{"d"}, {}]>, <@mesh, [{"d"}, {}]>, <@mesh, [{"d"}, {}]>] manual_axes={"d"} (%arg1: tensor<16x128xf32>) {
      %1 = "stablehlo.all_reduce"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
        %6 = stablehlo.add %arg2, %arg3 : tensor<f32>
        stablehlo.return %6 : tensor<f32>
      }) : (tensor<16x128xf32>) -> tensor<16x128xf32>
      %2 = "stablehlo.all_gather"(%arg1) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<16x128xf32>) -> tensor<64x128xf32>
      %3 = "stablehlo.reduce_scatter"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
      ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
        %6 = stablehlo.add %arg2, %arg3 : tensor<f32>
        stablehlo.return %6 : tensor<f32>
      }) : (tensor<16x128xf32>) -> tensor<4x128xf32>
      %4 = "stablehlo.all_to_all"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, concat_dimension = 0 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, split_count = 4 : i64, split_dimension = 0 : i64}> : (tensor<16x128xf32>) -> tensor<16x128xf32>
      %5 = "stablehlo.collective_permute"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0]]> : tensor<4x2xi64>}> : (tensor<16x128xf32>) -> tensor<16x128xf32>
      sdy.return %1, %2, %3, %4, %5 : tensor<16x128xf32>, tensor<64x128xf32>, tensor<4x128xf32>, tensor<16x128xf32>, tensor<16x128xf32>
    } : (tensor<64x128xf32>) -> (tensor<16x128xf32>, tensor<64x128xf32>, tensor<16x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>)
    return %0#0, %0#1, %0#2, %0#3, %0#4 : tensor<16x128xf32>, tensor<64x128xf32>, tensor<16x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>
  }
}
"##;

/// As above, of a product whose rows are divided among four devices.
const DIVIDED_PRODUCT: &str = r##"
module @jit_f attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["d"=4]> {stablehlo.mesh = {axes = [{name = "d", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<4096x1024xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"d"}, {}]>}, %arg1: tensor<1024x1024xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) -> (tensor<4096x1024xbf16> {jax.result_info = "result"}) {
    %0 = call @product(%arg0, %arg1) : (tensor<4096x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<4096x1024xbf16>
    return %0 : tensor<4096x1024xbf16>
  }
  func.func private @product(%arg0: tensor<4096x1024xbf16>, %arg1: tensor<1024x1024xbf16>) -> tensor<4096x1024xbf16> {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4096x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<4096x1024xbf16>
    return %0 : tensor<4096x1024xbf16>
  }
}
"##;

#[test]
fn programs_of_jax_say_how_many_devices_share_them() {
    let Some(compiler) = compiler() else { return };
    for target in TARGETS {
        let both = plan(compiler, target, &Program::from_text(SHARD_MAP));
        let figures = both.outcome.as_ref().unwrap_or_else(|refusal| panic!("{target}: {}", refusal.error));
        // 16 rows of 64 are on each device.
        assert_eq!((both.used, figures.memory.arguments), (4, 4 * 16 * 128), "{both}");
        let divided = plan(compiler, target, &Program::from_text(DIVIDED_PRODUCT));
        let figures = divided.outcome.as_ref().unwrap_or_else(|refusal| panic!("{target}: {}", refusal.error));
        assert_eq!((divided.used, figures.flops), (4, 2.0 * 1024f64.powi(3)), "{divided}");
        // A quarter of the rows, and all weights.
        assert_eq!(figures.memory.arguments, 2 * (1024 * 1024 + 1024 * 1024), "{divided}");
        assert_eq!(divided.to_json()["used"], 4);
    }
}

#[test]
fn a_program_needs_as_many_devices_as_it_has() {
    let Some(compiler) = compiler() else { return };
    let refused = |target: &str, program: Program| plan(compiler, target, &program).outcome.unwrap_err();
    let refusal = refused("v5e:1x1", Program::from_text(SHARD_MAP));
    assert_eq!(refusal.error.kind(), ErrorKind::Device, "{refusal}");
    assert_eq!(refusal.to_string(), "requires 4 devices, v5e:1x1 has 1");
    // Replicas of what is divided among partitions.
    let error = Program::from_text(SHARD_MAP).with_replicas(2).devices().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    // The numbers of partitions are no numbers of replicas.
    let replicas = Program::from_text(SHARD_MAP.replace("num_partitions = 4", "num_partitions = 1")).with_replicas(4);
    assert!(refused("v5e:2x2", replicas).error.message().contains("replicas of the 4"));
}
