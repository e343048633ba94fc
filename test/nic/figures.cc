// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Figures of emulated cards beside published ones.
//
//   figures            all rows of figures.def
//   figures --inputs   those that set parameters
//   figures --sweep CARD [PARAMETER=VALUE...]
//                      latency and bandwidth by size; of Myrinet by programmed I/O, by DMA, and
//                      with BullFrog's switch
//   figures --cards    messages by size, one card beside the other
#include "nic/figures.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>

#include "nic/myrinet/regs.h"

namespace torii::figures {
namespace {

constexpr double kHolds = 0.2;   // a check holds within that of what was published
constexpr double kStays = 0.02;  // and no row moves by more than that

// --- what the hosts' software takes: set by the inputs ------------------------------------------

constexpr Software kBullDogSoftware{.frame_ns = 3970, .dma_ns = 46440, .message_ns = 22000};
constexpr Software kMyricomSoftware{.frame_ns = 56650};
constexpr Software kNectarSoftware{.frame_ns = 82500};
constexpr Software kTnetSoftware{.message_ns = 5580};
constexpr Software kSciSoftware{.message_ns = 2270, .copy_ns = 10};

constexpr uint32_t kPioOnly = nic::myrinet::kFrameMax, kDmaOnly = 0, kBullFrog = 512;

Setup bulldog(uint32_t pio_max) { return {"myrinet", pio_max, kBullDogSoftware, {}}; }
Setup myricom() { return {"myrinet/raw", 0, kMyricomSoftware, {}}; }
Setup tnet() { return {"tnet", 0, kTnetSoftware, {}}; }
Setup nectar() { return {"nectar", 0, kNectarSoftware, {}}; }
Setup dolphin() { return {"sci/dolphin", 0, kSciSoftware, {}}; }
Setup qsnet() { return {"qsnet", 0, {}, {}}; }

double us(double ns) { return ns / 1e3; }

double crossover_bytes() {
  for (size_t bytes = 32; bytes <= 1024; bytes += 4)
    if (frame_ns(bulldog(kDmaOnly), bytes) <= frame_ns(bulldog(kPioOnly), bytes))
      return static_cast<double>(bytes);
  return 0;
}

// --- the table ---------------------------------------------------------------------------------

enum class Kind : uint8_t { input, check, bound };
enum class Unit : uint8_t { us, mbit, mbyte, bytes, ratio };

struct Figure {
  const char* number;
  const char* what;
  Kind kind;
  double published;
  Unit unit;
  double predicted;
  double frozen;
  std::function<double()> measure;
};

const char* text_of(Kind kind) {
  switch (kind) {
    case Kind::input:
      return "input";
    case Kind::check:
      return "check";
    case Kind::bound:
      return "bound";
  }
  return "";
}

const char* text_of(Unit unit) {
  switch (unit) {
    case Unit::us:
      return "us";
    case Unit::mbit:
      return "Mbit/s";
    case Unit::mbyte:
      return "MB/s";
    case Unit::bytes:
      return "bytes";
    case Unit::ratio:
      return "";
  }
  return "";
}

// False: one of them has moved.
bool print_figures(bool inputs_only) {
  bool stay = true;
  const Figure figures[] = {
#define FIGURE(number, what, kind, published, unit, predicted, frozen, got) \
  {number, what, Kind::kind, published, Unit::unit, predicted, frozen, [] { return got; }},
#include "nic/figures.def"
#undef FIGURE
  };
  std::printf("%-3s %-52s %-6s %9s %9s %9s  %s\n", "row", "what", "kind", "published", "predicted",
              "got", "unit");
  for (const Figure& figure : figures) {
    if (inputs_only && figure.kind != Kind::input) continue;
    const double got = figure.measure();
    const bool holds = figure.kind == Kind::bound ? got <= figure.published
                                                  : std::abs(got / figure.published - 1) <= kHolds;
    std::printf("%-3s %-52s %-6s %9.5g %9.5g %9.5g  %s%s\n", figure.number, figure.what,
                text_of(figure.kind), figure.published, figure.predicted, got, text_of(figure.unit),
                figure.kind == Kind::input ? ""
                : holds                    ? ", holds"
                                           : ", missed");
    std::fflush(stdout);
    if (figure.frozen == 0 || std::abs(got / figure.frozen - 1) <= kStays) continue;
    std::printf("FAIL row %s has moved from %.5g to %.5g; find out why\n", figure.number,
                figure.frozen, got);
    stay = false;
  }
  return stay;
}

// False: such a card does not come up.
bool print_sweep(const std::string& card,
                 const std::vector<std::pair<std::string, std::string>>& parameters) {
  std::vector<Setup> setups{{card, 0, {}, parameters}};
  size_t largest = 2048;
  if (card == "myrinet") {
    setups = {bulldog(kPioOnly), bulldog(kDmaOnly), bulldog(kBullFrog)};
    for (Setup& setup : setups) setup.parameters = parameters;
    largest = nic::myrinet::kFrameMax;
  }
  std::printf("# bytes, then us and Mbit/s%s\n",
              setups.size() > 1 ? ": programmed I/O, DMA, BullFrog's switch" : "");
  for (size_t size = 4; size <= largest; size *= 2) {
    for (const size_t bytes : {size, size * 5 / 4, size * 3 / 2, size * 7 / 4}) {
      if (bytes > largest || (bytes != size && size < 16)) continue;
      std::printf("%zu", bytes);
      for (const Setup& setup : setups) {
        const double ns = frame_ns(setup, bytes);
        if (ns == 0) return false;
        std::printf(" %.2f %.2f", us(ns), mbit_per_s(bytes, ns));
      }
      std::printf("\n");
    }
  }
  return true;
}

// Messages of a tagged port, with what MPI took on the hosts of that card, where that is known.
bool print_cards() {
  const struct {
    const char* name;
    Setup setup;
    size_t largest;  // that ends in time
  } cards[] = {{"myrinet", bulldog(kBullFrog), 1 << 20},
               {"tnet", tnet(), 1 << 20},
               {"qsnet", qsnet(), 1 << 20},
               {"sci", dolphin(), 1 << 20},
               {"nectar", nectar(), 64 << 10}};
  std::printf("%8s", "# bytes");
  for (const auto& card : cards) std::printf(" %8s us %8s", card.name, "Mbit/s");
  std::printf("\n");
  for (size_t bytes = 4; bytes <= 1 << 20; bytes *= 4) {
    std::printf("%8zu", bytes);
    for (const auto& card : cards) {
      const double ns = bytes <= card.largest ? message_ns(card.setup, bytes) : 0;
      if (ns == 0 && bytes <= card.largest) return false;
      if (ns == 0) std::printf(" %11s %8s", "-", "-");
      if (ns != 0) std::printf(" %11.2f %8.2f", us(ns), mbit_per_s(bytes, ns));
    }
    std::printf("\n");
  }
  return true;
}

int run(int argc, char** argv) {
  const std::string option = argc > 1 ? argv[1] : "";
  std::vector<std::pair<std::string, std::string>> parameters;
  for (int i = 3; i < argc; i++) {
    const std::string text = argv[i];
    const size_t equals = text.find('=');
    parameters.emplace_back(text.substr(0, equals),
                            equals == text.npos ? "" : text.substr(equals + 1));
  }
  if (option == "--sweep" && argc > 2) return print_sweep(argv[2], parameters) ? 0 : 1;
  if (option == "--cards" && argc == 2) return print_cards() ? 0 : 1;
  if (argc > 2 || (!option.empty() && option != "--inputs")) {
    std::fprintf(stderr,
                 "usage: figures [--inputs | --cards | --sweep CARD [PARAMETER=VALUE...]]\n");
    return 2;
  }
  return print_figures(option == "--inputs") ? 0 : 1;
}

}  // namespace
}  // namespace torii::figures

int main(int argc, char** argv) { return torii::figures::run(argc, argv); }
