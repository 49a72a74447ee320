#include <algorithm>
#include <cmath>

#include "tune/predict.h"
#include "tutti/tune.h"

namespace tutti::tune {
namespace {

constexpr double kPull = 0.02;  // weight of a parameter's own logarithm, against 1 for each observation
constexpr double kOutlier = 0.3;

// A factor beyond e^0.3 counts by its logarithm only, not by the square of it: a model that is right for most sizes is
// better than one that is half wrong for all.
double penalty(double ratio) {
  const double off = std::abs(std::log(ratio));
  return off < kOutlier ? off * off : kOutlier * (2 * off - kOutlier);
}

class Fit {
 public:
  Fit(std::span<const Observation> observations, const Parameters& start, std::span<const std::string_view> fields)
      : observations_(observations), start_(start), best_(start) {
    for (const ParameterField& field : parameter_fields())
      if (std::ranges::find(fields, field.name) != fields.end() && field.in_file_unit(start) > 0)
        fields_.push_back(&field);
  }

  // Steps of all sizes, up and down, field by field, until none helps. The sum has one valley for all we know, but the
  // largest of a prediction's bounds makes edges in it, along which no single field can go: so pairs are tried too.
  Parameters run() {
    least_ = cost(best_);
    for (const double step : {2.0, 1.4, 1.15, 1.05, 1.02})
      while (improve(step)) continue;
    return best_;
  }

 private:
  bool improve(double step) {
    const double before = least_;
    for (const ParameterField* field : fields_)
      for (const double factor : {step, 1 / step}) attempt({{field, factor}});
    for (const ParameterField* up : fields_)
      for (const ParameterField* down : fields_)
        if (up != down) attempt({{up, step}, {down, 1 / step}});
    return least_ < before * (1 - 1e-6);
  }

  void attempt(std::initializer_list<std::pair<const ParameterField*, double>> changes) {
    Parameters changed = best_;
    for (const auto& [field, factor] : changes) {
      double& value = field->of(changed);
      value = std::clamp(value * factor, field->least * field->unit_s, field->most * field->unit_s);
    }
    const double now = cost(changed);
    if (now >= least_) return;
    least_ = now;
    best_ = changed;
  }

  double cost(const Parameters& parameters) const {
    double sum = 0;
    for (const Observation& o : observations_) sum += penalty(ratio(o, parameters));
    for (const ParameterField* field : fields_)
      sum += kPull * std::pow(std::log(field->in_file_unit(parameters) / field->in_file_unit(start_)), 2);
    return sum;
  }

  std::span<const Observation> observations_;
  const Parameters start_;
  std::vector<const ParameterField*> fields_;
  Parameters best_;
  double least_ = 0;
};

}  // namespace

double ratio(const Observation& o, const Parameters& parameters) {
  Facts facts = o.facts;
  facts.parameters = parameters;
  const CostTerms terms = o.algorithm->terms({o.algorithm->collective, facts.nranks, Rank{0}, o.lanes});
  return predict(terms, facts, o.bytes, o.tile_bytes).seconds() / o.seconds;
}

double misfit(std::span<const Observation> observations, const Parameters& parameters) {
  double sum = 0;
  for (const Observation& o : observations) sum += std::pow(std::log(ratio(o, parameters)), 2);
  return std::exp(std::sqrt(sum / std::max<double>(1, static_cast<double>(observations.size()))));
}

Parameters fit(std::span<const Observation> observations, const Parameters& start,
               std::span<const std::string_view> fields) {
  return Fit(observations, start, fields).run();
}

}  // namespace tutti::tune
