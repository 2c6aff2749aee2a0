//! Plans as JSON, for other programs. Names are the fields'; sizes are bytes, times seconds.

use super::{Batch, Estimate, Figures, Memory, Operation, Place, Plan, Refusal};
use serde_json::{Value, json};

impl Plan {
    /// The plan as JSON. `outcome` holds either `compiled` or `refused`.
    ///
    /// ```no_run
    /// # fn show(plan: &tpu_core::plan::Plan) {
    /// let json = plan.to_json();
    /// let seconds = json["outcome"]["compiled"]["estimate"]["seconds"].as_f64();
    /// # let _ = seconds;
    /// # }
    /// ```
    pub fn to_json(&self) -> Value {
        json!({
            "target": self.target,
            "device_kind": self.device_kind,
            "devices": self.devices,
            "device_memory": self.device_memory,
            "peak_flops_per_second": self.chip.map(|chip| chip.flops_per_second),
            "clock": self.chip.map(|chip| chip.clock()),
            "compile_seconds": self.compile_time.as_secs_f64(),
            "outcome": match &self.outcome {
                Ok(figures) => json!({ "compiled": self.figures(figures) }),
                Err(refusal) => json!({ "refused": refused(refusal) }),
            },
        })
    }

    fn figures(&self, figures: &Figures) -> Value {
        json!({
            "flops": figures.flops,
            "bytes": figures.bytes,
            "memory": memory(&figures.memory),
            "estimate": estimate(&figures.estimate),
            "share_of_peak": self.chip.and_then(|chip| figures.share_of_peak(&chip)),
        })
    }
}

impl Batch {
    /// What was found as JSON: `fits` and `too_large` are batches or null, `plan` is that of the batch that fits.
    pub fn to_json(&self) -> Value {
        json!({
            "fits": self.fits.as_ref().map(|(batch, _)| batch),
            "too_large": self.too_large,
            "compilations": self.compilations,
            "plan": self.fits.as_ref().map(|(_, plan)| plan.to_json()),
        })
    }
}

fn refused(refusal: &Refusal) -> Value {
    json!({
        "out_of_memory": refusal.is_out_of_memory(),
        "needed": refusal.needed,
        "available": refusal.available,
        "reason": refusal.error.message(),
    })
}

fn memory(memory: &Memory) -> Value {
    let &Memory { arguments, outputs, aliased, temporaries, code, peak, allocated } = memory;
    json!({
        "arguments": arguments,
        "outputs": outputs,
        "aliased": aliased,
        "temporaries": temporaries,
        "code": code,
        "peak": peak,
        "allocated": allocated,
    })
}

fn estimate(estimate: &Estimate) -> Value {
    json!({
        "seconds": estimate.seconds,
        "cycles": estimate.cycles,
        "unmodelled_seconds": estimate.unmodelled_seconds,
        "unmodelled": estimate.unmodelled,
        "unbounded_loops": estimate.unbounded_loops,
        "operations": estimate.operations.iter().map(operation).collect::<Vec<_>>(),
    })
}

fn operation(operation: &Operation) -> Value {
    let place = |Place { name, file, line }: &Place| json!({ "name": name, "file": file, "line": line });
    json!({
        "name": operation.name,
        "cycles": operation.cycles,
        "runs": operation.runs,
        "places": operation.places.iter().map(place).collect::<Vec<_>>(),
    })
}
