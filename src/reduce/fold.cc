#include "reduce/fold.h"

#include <cstring>

#include "reduce/fold_call.h"
#include "reduce/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/fold.cc"
#include "reduce/disabled_targets.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "reduce/fold-inl.h"

#ifdef __FAST_MATH__
#error "Folds promise the same bits on every machine; compile them without -ffast-math"
#endif

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(fold_kernel);
HWY_EXPORT(target_name);

namespace {

// k == 1 with nothing to compute: NaNs keep their payload, and memcpy knows better than we do how to copy.
void copy(const void* operand, std::span<void* const> results, size_t bytes) {
  for (void* result : results)
    if (result != operand) std::memcpy(result, operand, bytes);
}

FoldCall make_call(const FoldSpec& spec, std::span<const void* const> operands, int own_operand, bool complete,
                   std::span<void* const> results, size_t count) {
  const bool scales = spec.op == ReduceOp::premul_sum && own_operand != kNoOwnOperand;
  const bool divides = spec.op == ReduceOp::avg && complete;
  const bool is_sum = spec.op == ReduceOp::avg || spec.op == ReduceOp::premul_sum;
  return {
      .type = spec.type,
      .op = is_sum ? ReduceOp::sum : spec.op,
      .operands = reinterpret_cast<const uint8_t* const*>(operands.data()),
      .operand_count = operands.size(),
      .scaled_operand = scales ? static_cast<size_t>(own_operand) : operands.size(),
      .scalar_bits = spec.scalar_bits,
      .divisor = divides ? spec.nranks : 0,
      .results = reinterpret_cast<uint8_t* const*>(results.data()),
      .result_count = results.size(),
      .count = count,
  };
}

// Asked once, before a target is forced: afterwards Highway reports only that one.
const std::vector<int64_t>& usable_targets() {
  static const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  return targets;
}

}  // namespace

void fold(const FoldSpec& spec, std::span<const void* const> operands, int own_operand, bool complete,
          std::span<void* const> results, size_t count) {
  if (count == 0) return;
  if (is_copy(spec, operands.size(), own_operand, complete))
    return copy(operands[0], results, count * size_of(spec.type));
  HWY_DYNAMIC_DISPATCH(fold_kernel)(make_call(spec, operands, own_operand, complete, results, count));
}

size_t fold_groups_past_cache(const FoldSpec& spec, std::span<const void* const> operands, int own_operand,
                              bool complete, std::span<void* const> results, std::span<void* const> streamed,
                              size_t count) {
  FoldCall call = make_call(spec, operands, own_operand, complete, results, count);
  call.streamed = reinterpret_cast<uint8_t* const*>(streamed.data());
  call.streamed_count = streamed.size();
  return HWY_DYNAMIC_DISPATCH(fold_kernel)(call);
}

std::string_view fold_target() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

std::vector<std::string_view> fold_targets() {
  std::vector<std::string_view> names;
  for (int64_t target : usable_targets()) names.push_back(hwy::TargetName(target));
  return names;
}

bool force_fold_target(std::string_view name) {
  int64_t mask = 0;  // Highway's word for "what the processor has"
  for (int64_t target : usable_targets())
    if (name == hwy::TargetName(target)) mask = target;
  if (mask == 0 && !name.empty()) return false;
  hwy::SetSupportedTargetsForTest(mask);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return true;
}

}  // namespace tutti
#endif  // HWY_ONCE
