// Ten frames of a DTLS 1.2 handshake, as long as those of `lightseal lab handshake --profile
// tinydtls`, between a device and its coordinator in ns-3's beacon-enabled IEEE 802.15.4. The claim
// `duty-beacon` compares the lab's beacon model with what this prints.
//
// Debian 12's libns3-dev (ns-3 3.37):
//   g++ -O1 -std=c++17 beacon.cc -o beacon -lns3-core -lns3-network -lns3-lr-wpan \
//       -lns3-mobility -lns3-propagation -lns3-spectrum
//   for so in 1 2; do for wait in 0 5; do for bo in 3 4 5 6 7 8; do
//       ./beacon --BO=$bo --SO=$so --wait=$wait; done; done; done
//
// ns-3 is only compared with; Lightseal contains nothing of it.

#include <cmath>
#include <iostream>
#include <vector>

#include <ns3/core-module.h>
#include <ns3/lr-wpan-module.h>
#include <ns3/mobility-module.h>
#include <ns3/packet.h>
#include <ns3/propagation-module.h>
#include <ns3/spectrum-module.h>

using namespace ns3;

namespace {

constexpr int kDevice = 0;
constexpr int kCoordinator = 1;

// 9 bytes of compressed IPv6 and UDP headers, and 12 bytes by which 64-bit MAC addresses are longer
// than ns-3's 16-bit ones.
constexpr int kHeaders = 9 + 12;

struct Message {
    int from;
    int dtls_bytes;
};

const std::vector<Message> kHandshake = {
    {kDevice, 76}, {kCoordinator, 44}, {kDevice, 92}, {kCoordinator, 72}, {kCoordinator, 25},
    {kDevice, 42}, {kDevice, 14},      {kDevice, 53}, {kCoordinator, 14}, {kCoordinator, 53},
};

struct End {
    Ptr<LrWpanNetDevice> radio;
    std::vector<int> queue;
    bool busy = false;
};

End nodes[2];
size_t received = 0;
double started = 0;
double wait_ms = 0;
double interval_s = 0;
int wanted = 4000;
std::vector<double> durations;
Ptr<UniformRandomVariable> uniform;

void Send(int from) {
    End &node = nodes[from];
    if (node.busy || node.queue.empty()) {
        return;
    }
    node.busy = true;
    McpsDataRequestParams params;
    params.m_dstPanId = 5;
    params.m_srcAddrMode = SHORT_ADDR;
    params.m_dstAddrMode = SHORT_ADDR;
    params.m_dstAddr = Mac16Address(from == kDevice ? "00:01" : "00:02");
    params.m_msduHandle = 0;
    params.m_txOptions = TX_OPTION_ACK;
    node.radio->GetMac()->McpsDataRequest(params, Create<Packet>(node.queue.front()));
}

void Confirmed(int from, McpsDataConfirmParams params) {
    End &node = nodes[from];
    node.busy = false;
    if (params.m_status == IEEE_802_15_4_SUCCESS) {
        node.queue.erase(node.queue.begin());
    }
    Simulator::ScheduleNow(&Send, from);
}

// Queues all messages of the flight that begins with message `first`.
void SendFlight(size_t first) {
    const int from = kHandshake[first].from;
    for (size_t i = first; i < kHandshake.size() && kHandshake[i].from == from; ++i) {
        nodes[from].queue.push_back(kHandshake[i].dtls_bytes + kHeaders);
    }
    Send(from);
}

void Start() {
    started = Simulator::Now().GetSeconds();
    received = 0;
    SendFlight(0);
}

void Received(int by, McpsDataIndicationParams, Ptr<Packet>) {
    if (kHandshake[received].from == by) {
        return;
    }
    if (++received == kHandshake.size()) {
        durations.push_back(Simulator::Now().GetSeconds() - started);
        if (static_cast<int>(durations.size()) >= wanted) {
            Simulator::Stop();
        } else {
            const double pause = interval_s * (1 + uniform->GetValue(0, 1));
            Simulator::Schedule(Seconds(pause), &Start);
        }
    } else if (kHandshake[received].from == by) {
        Simulator::Schedule(Seconds(wait_ms / 1e3), &SendFlight, received);
    }
}

} // namespace

int main(int argc, char **argv) {
    int beacon_order = 3;
    int superframe_order = 1;
    CommandLine command;
    command.AddValue("BO", "beacon order", beacon_order);
    command.AddValue("SO", "superframe order", superframe_order);
    command.AddValue("N", "handshakes", wanted);
    command.AddValue("wait", "ms from the end of a flight to its answer", wait_ms);
    command.Parse(argc, argv);
    uniform = CreateObject<UniformRandomVariable>();

    auto channel = CreateObject<SingleModelSpectrumChannel>();
    channel->AddPropagationLossModel(CreateObject<LogDistancePropagationLossModel>());
    channel->SetPropagationDelayModel(CreateObject<ConstantSpeedPropagationDelayModel>());
    for (int i = 0; i < 2; ++i) {
        auto radio = CreateObject<LrWpanNetDevice>();
        radio->SetAddress(Mac16Address(i == kDevice ? "00:02" : "00:01"));
        radio->SetChannel(channel);
        CreateObject<Node>()->AddDevice(radio);
        auto place = CreateObject<ConstantPositionMobilityModel>();
        place->SetPosition(Vector(0, i * 10, 0));
        radio->GetPhy()->SetMobility(place);
        radio->GetMac()->SetMcpsDataConfirmCallback(MakeBoundCallback(&Confirmed, i));
        radio->GetMac()->SetMcpsDataIndicationCallback(MakeBoundCallback(&Received, i));
        nodes[i].radio = radio;
    }
    nodes[kDevice].radio->GetMac()->SetPanId(5);
    nodes[kDevice].radio->GetMac()->SetAssociatedCoor(Mac16Address("00:01"));

    MlmeStartRequestParams superframes;
    superframes.m_panCoor = true;
    superframes.m_PanId = 5;
    superframes.m_bcnOrd = beacon_order;
    superframes.m_sfrmOrd = superframe_order;
    Simulator::Schedule(Seconds(2), &LrWpanMac::MlmeStartRequest,
                        nodes[kCoordinator].radio->GetMac(), superframes);
    interval_s = 0.01536 * (1 << beacon_order);
    Simulator::Schedule(Seconds(6 + 20 * interval_s), &Start);
    Simulator::Stop(Seconds(200000));
    Simulator::Run();

    double sum = 0;
    double squares = 0;
    for (const double duration : durations) {
        sum += duration;
        squares += duration * duration;
    }
    const double count = durations.size();
    const double mean = sum / count;
    const double error = 1.96 * std::sqrt((squares / count - mean * mean) / count);
    std::cout << "BO " << beacon_order << " SO " << superframe_order << " wait " << wait_ms
              << " ms: " << mean << " +- " << error << " s, " << count << " handshakes\n";
}
