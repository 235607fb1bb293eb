// The engine's queue of requests, read from a pipe.

#include "engine/server/request_queue.h"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <catch2/catch.hpp>

using namespace kvscope;

TEST_CASE("a request that was served keeps no memory: a capture sends thousands", "[engine][server]") {
  constexpr int kMany = 20'000;
  int to_queue[2], from_queue[2];
  REQUIRE(::pipe2(to_queue, O_CLOEXEC) == 0);
  REQUIRE(::pipe2(from_queue, O_CLOEXEC) == 0);
  Channel client(-1, to_queue[1]);
  Channel channel(to_queue[0], from_queue[1]);
  std::size_t before = 0, after = 0;
  {
    engine::RequestQueue queue(channel);
    for (int id = 0; id < kMany; ++id) {
      client.write({{"type", "doctor"}, {"id", id}});
      REQUIRE(queue.next()->id == id);
      (id < 1000 ? before : after) = ::mallinfo2().uordblks;
    }
    client.write({{"type", "quit"}});
  }
  CHECK(after < before + 100'000);
  for (const int fd : {to_queue[0], to_queue[1], from_queue[0], from_queue[1]}) ::close(fd);
}
