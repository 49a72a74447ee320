// tutti.hpp is C++17 and needs nothing of the project but itself and tutti.h.
#include <tutti/tutti.hpp>

static_assert(tutti::data_type_of<int>() == tuttiInt32);
static_assert(tutti::data_type_of<unsigned char>() == tuttiUint8);
static_assert(tutti::data_type_of<long>() == (sizeof(long) == 8 ? tuttiInt64 : tuttiInt32));
static_assert(tutti::data_type_of<double>() == tuttiFloat64);
static_assert(!std::is_copy_constructible_v<tutti::Communicator> &&
              std::is_nothrow_move_constructible_v<tutti::Communicator>);
static_assert(!std::is_copy_constructible_v<tutti::Stream> && !std::is_move_constructible_v<tutti::Group>);
static_assert(std::is_base_of_v<std::exception, tutti::Error>);
