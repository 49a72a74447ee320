// Every type with every operation, on data for which each has exactly one right answer; factors and averages.
#include <cmath>
#include <cstring>

#include "ranks.h"

namespace tutti::test {
namespace {

using Bytes = std::vector<unsigned char>;

struct Type {
  tuttiDataType_t type;
  const char* name;
  size_t bytes;
  bool is_signed;
  int exponent_bits = 0, mantissa_bits = 0;  // of floats
};
constexpr Type kTypes[] = {
    {tuttiInt8, "int8", 1, true},
    {tuttiUint8, "uint8", 1, false},
    {tuttiInt32, "int32", 4, true},
    {tuttiUint32, "uint32", 4, false},
    {tuttiInt64, "int64", 8, true},
    {tuttiUint64, "uint64", 8, false},
    {tuttiFloat16, "float16", 2, true, 5, 10},
    {tuttiFloat32, "float32", 4, true, 8, 23},
    {tuttiFloat64, "float64", 8, true, 11, 52},
    {tuttiBfloat16, "bfloat16", 2, true, 8, 7},
    {tuttiFloat8e4m3, "float8e4m3", 1, true, 4, 3},
    {tuttiFloat8e5m2, "float8e5m2", 1, true, 5, 2},
};

// `value` must have a normal, exact representation.
uint64_t bits_of(const Type& type, double value) {
  if (type.exponent_bits == 0) return static_cast<uint64_t>(static_cast<int64_t>(value));
  if (value == 0) return 0;
  int exponent;
  const double mantissa = std::frexp(std::abs(value), &exponent) * 2 - 1;  // in [0, 1)
  const uint64_t bias = (uint64_t{1} << (type.exponent_bits - 1)) - 1;
  const uint64_t sign = value < 0 ? uint64_t{1} << (type.exponent_bits + type.mantissa_bits) : 0;
  return sign | (bias + static_cast<uint64_t>(exponent - 1)) << type.mantissa_bits |
         static_cast<uint64_t>(std::ldexp(mantissa, type.mantissa_bits));
}

Bytes encode(const Type& type, const std::vector<double>& values) {
  Bytes bytes(values.size() * type.bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t bits = bits_of(type, values[i]);
    std::memcpy(bytes.data() + i * type.bytes, &bits, type.bytes);
  }
  return bytes;
}

constexpr const char* kOps[] = {"sum", "prod", "max", "min", "avg", "premul_sum"};
constexpr int kPremulSum = 5;
constexpr size_t kCount = 23;

// Element i of rank r's input. All sums of up to five ranks stay within +-8 and all products within +-4, so that also
// two bits of mantissa hold every partial result. For avg all ranks give the same, so that any n divides.
double input(int op, bool is_signed, int rank, size_t i) {
  const size_t k = i + static_cast<size_t>(rank) * 3;
  if (op == 4) return is_signed && i % 3 == 2 ? -1 : static_cast<double>(i % 2);
  if (op == 1) return (rank < 2 ? 2 : 1) * (is_signed && k % 3 == 0 ? -1 : 1);
  if (is_signed) return std::vector<double>{1, -1, 0, 1, 2}[k % 5];
  return static_cast<double>(k % 2);
}
double factor(int rank) { return rank % 2 == 0 ? 1 : 2; }

double expected(int op, bool is_signed, int n, size_t i) {
  double result = input(op, is_signed, 0, i) * (op == kPremulSum ? factor(0) : 1);
  for (int r = 1; r < n; ++r) {
    const double value = input(op, is_signed, r, i);
    if (op == 0 || op == 4) result += value;
    if (op == 1) result *= value;
    if (op == 2) result = std::max(result, value);
    if (op == 3) result = std::min(result, value);
    if (op == kPremulSum) result += value * factor(r);
  }
  return op == 4 ? result / n : result;
}

class Types : public WorldTest {};

void check_type(const Member& me, const Type& type, int op, tuttiRedOp_t operation) {
  SCOPED_TRACE(std::string(type.name) + " " + kOps[op] + " at rank " + std::to_string(me.rank));
  const size_t n = static_cast<size_t>(me.n);
  std::vector<double> in, out;
  for (size_t i = 0; i < kCount * n; ++i) {
    in.push_back(input(op, type.is_signed, me.rank, i));
    out.push_back(expected(op, type.is_signed, me.n, i));
  }
  const Bytes send = encode(type, in), want = encode(type, out);
  Bytes recv(send.size());
  EXPECT_DONE(tuttiAllReduce(send.data(), recv.data(), kCount * n, type.type, operation, me.comm, nullptr));
  EXPECT_EQ(recv, want) << "all_reduce";
  recv.assign(send.size(), 0);
  const int root = me.n - 1;
  EXPECT_DONE(tuttiReduce(send.data(), recv.data(), kCount * n, type.type, operation, root, me.comm, nullptr));
  EXPECT_EQ(recv, me.rank == root ? want : Bytes(send.size())) << "reduce";
  const size_t block_bytes = kCount * type.bytes;
  recv.assign(block_bytes, 0);
  EXPECT_DONE(tuttiReduceScatter(send.data(), recv.data(), kCount, type.type, operation, me.comm, nullptr));
  const auto own = want.begin() + static_cast<long>(static_cast<size_t>(me.rank) * block_bytes);
  EXPECT_EQ(recv, Bytes(own, own + static_cast<long>(block_bytes))) << "reduce_scatter";
}

TEST_P(Types, EveryOperation) {
  const Ranks ranks(n());
  ranks.run([](const Member& me) {
    for (const Type& type : kTypes) {
      for (int op = 0; op < tuttiNumOps; ++op) check_type(me, type, op, static_cast<tuttiRedOp_t>(op));
      const uint64_t scalar = bits_of(type, factor(me.rank));
      tuttiRedOp_t premul_sum;
      EXPECT_DONE(tuttiRedOpCreatePreMulSum(&premul_sum, &scalar, type.type, me.comm));
      check_type(me, type, kPremulSum, premul_sum);
      EXPECT_DONE(tuttiRedOpDestroy(premul_sum, me.comm));
    }
  });
}

TEST_P(Types, TheAverageOfIntegersTruncatesTowardsZero) {
  const Ranks ranks(n());
  ranks.run([](const Member& me) {
    // Sums: -(n - 1), n - 1 and 7 + n.
    int32_t values[3] = {me.rank == 0 ? 0 : -1, me.rank == 0 ? 0 : 1, me.rank == 0 ? 8 : 1};
    EXPECT_DONE(tuttiAllReduce(values, values, 3, tuttiInt32, tuttiAvg, me.comm, nullptr));
    EXPECT_THAT(values, testing::ElementsAre(-(me.n - 1) / me.n, (me.n - 1) / me.n, (7 + me.n) / me.n));
  });
}

// The order of the operands differs between algorithms, but no two ranks may end with different bits.
TEST_P(Types, FloatsRoundAlikeOnAllRanks) {
  const Ranks ranks(n());
  for (size_t count : {size_t{5}, size_t{900}, size_t{70'000}}) {
    std::vector<std::vector<float>> results(static_cast<size_t>(n()), std::vector<float>(count));
    ranks.run([&](const Member& me) {
      auto& mine = results[static_cast<size_t>(me.rank)];
      for (size_t i = 0; i < count; ++i) mine[i] = 1.0F / static_cast<float>(3 + i * 7 + static_cast<size_t>(me.rank));
      EXPECT_DONE(tuttiAllReduce(mine.data(), mine.data(), count, tuttiFloat32, tuttiSum, me.comm, nullptr));
    });
    for (const auto& other : results)
      EXPECT_EQ(std::memcmp(other.data(), results[0].data(), count * sizeof(float)), 0) << count;
  }
}

TEST(Factors, BelongToOneTypeAndOneCommunicator) {
  const Environment environment;
  const Ranks ranks(2);
  Ranks others(2);
  ranks.run([&](const Member& me) {
    const float scalar = 3;
    tuttiRedOp_t op;
    ASSERT_DONE(tuttiRedOpCreatePreMulSum(&op, &scalar, tuttiFloat32, me.comm));
    float value = 2;
    EXPECT_THAT(problem(tuttiAllReduce(&value, &value, 1, tuttiInt32, op, me.comm, nullptr)),
                testing::AllOf(testing::StartsWith("invalid argument"), testing::HasSubstr("type float"),
                               testing::HasSubstr("int32")));
    EXPECT_THAT(problem(tuttiAllReduce(&value, &value, 1, tuttiFloat32, op, others[me.rank], nullptr)),
                testing::StartsWith("invalid argument"));
    EXPECT_THAT(problem(tuttiRedOpDestroy(op, others[me.rank])), testing::StartsWith("invalid argument"));
    EXPECT_DONE(tuttiAllReduce(&value, &value, 1, tuttiFloat32, op, me.comm, nullptr));
    EXPECT_EQ(value, 12);
    EXPECT_DONE(tuttiRedOpDestroy(op, me.comm));
    EXPECT_THAT(problem(tuttiAllReduce(&value, &value, 1, tuttiFloat32, op, me.comm, nullptr)),
                testing::StartsWith("invalid argument"));
    EXPECT_THAT(problem(tuttiRedOpDestroy(op, me.comm)), testing::StartsWith("invalid argument"));
    EXPECT_THAT(problem(tuttiRedOpDestroy(tuttiSum, me.comm)), testing::StartsWith("invalid argument"));
  });
  expect_usable(ranks);
  expect_usable(others);
}

// The scalar is read when the operation is made.
TEST(Factors, AreReadAtOnce) {
  const Environment environment;
  const Ranks ranks(3);
  ranks.run([](const Member& me) {
    double scalar = me.rank + 1;
    tuttiRedOp_t op;
    ASSERT_DONE(tuttiRedOpCreatePreMulSum(&op, &scalar, tuttiFloat64, me.comm));
    scalar = 1000;
    double value = 1;
    EXPECT_DONE(tuttiAllReduce(&value, &value, 1, tuttiFloat64, op, me.comm, nullptr));
    EXPECT_EQ(value, 6);
    EXPECT_DONE(tuttiRedOpDestroy(op, me.comm));
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, Types, testing::ValuesIn(worlds({1, 2, 3, 4, 5})), world_name);

}  // namespace
}  // namespace tutti::test
