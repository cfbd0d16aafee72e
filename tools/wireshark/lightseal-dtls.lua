-- Shows records of DTLS 1.3 with shared tags in Wireshark: their headers and bodies, and the tags
-- at the end of a body where they can be told from it. Nothing is decrypted.
--
-- Nothing is dissected until ports are set, in the preferences or on the command line:
--   tshark -X lua_script:lightseal-dtls.lua -o lsdtls.ports:5684 -o lsdtls.to_server:agg:8 -r file.pcap
-- The format is that of docs/spec/mac-aggregation.md; docs/wireshark.md says how to use this.

set_plugin_info({
    version = "0.1.0",
    author = "Lightseal",
    description = "DTLS 1.3 with aggregated tags",
})

local CONTENT_TYPES = {
    [20] = "change_cipher_spec", [21] = "alert", [22] = "handshake", [23] = "application_data",
    [25] = "tls12_cid", [26] = "ack", [27] = "return_routability_check",
}
-- Length in bytes of a record's own tag, and of an aggregate under Agg(n).
local FULL_TAG = 16
-- The low bits of the epoch of handshake records, which have plain tags.
local HANDSHAKE = 2

local dtls = Proto("lsdtls", "DTLS 1.3 with aggregated tags")
dtls.prefs.ports = Pref.range("Ports", "", "The servers' UDP ports", 65535)
local ABOUT_SCHEME = "off, agg:N, r2d2:O or sliding:O, with +check if the ends agreed on it, as for lightseal proxy --aggregate"
dtls.prefs.to_server = Pref.string("Scheme to the server", "off", ABOUT_SCHEME)
dtls.prefs.to_client = Pref.string("Scheme to the client", "off", ABOUT_SCHEME)
dtls.prefs.id_to_server = Pref.uint("Connection ID to the server", 0, "Its length in bytes")
dtls.prefs.id_to_client = Pref.uint("Connection ID to the client", 0, "Its length in bytes")
dtls.prefs.tag = Pref.uint("Plain tags", 16, "Their length in bytes: 8 with CCM_8")

local f = {
    type = ProtoField.uint8("lsdtls.type", "Content type", base.DEC, CONTENT_TYPES),
    version = ProtoField.uint16("lsdtls.version", "Version", base.HEX),
    epoch = ProtoField.uint16("lsdtls.epoch", "Epoch"),
    number = ProtoField.uint64("lsdtls.number", "Number"),
    flags = ProtoField.uint8("lsdtls.flags", "Flags", base.HEX),
    has_id = ProtoField.bool("lsdtls.flags.connection_id", "Connection ID", 8, nil, 0x10),
    long = ProtoField.bool("lsdtls.flags.long_number", "16-bit number", 8, nil, 0x08),
    has_length = ProtoField.bool("lsdtls.flags.length", "Length", 8, nil, 0x04),
    epoch_bits = ProtoField.uint8("lsdtls.epoch_bits", "Epoch, low bits", base.DEC, nil, 0x03),
    id = ProtoField.bytes("lsdtls.connection_id", "Connection ID"),
    masked = ProtoField.uint16("lsdtls.number_encrypted", "Number, low bits, encrypted", base.HEX),
    length = ProtoField.uint16("lsdtls.length", "Length"),
    scheme = ProtoField.string("lsdtls.scheme", "Scheme"),
    clear = ProtoField.bytes("lsdtls.fragment", "Fragment"),
    sealed = ProtoField.bytes("lsdtls.encrypted", "Encrypted"),
    sealed_and_tags = ProtoField.bytes("lsdtls.encrypted_and_tags", "Encrypted, and tags"),
    tag = ProtoField.bytes("lsdtls.tag", "Tag"),
    aggregate = ProtoField.bytes("lsdtls.aggregate", "Aggregate"),
    rest = ProtoField.bytes("lsdtls.undissected", "Not dissected"),
}
dtls.fields = f
local e = {
    malformed = ProtoExpert.new("lsdtls.malformed", "Malformed record",
        expert.group.MALFORMED, expert.severity.ERROR),
    scheme = ProtoExpert.new("lsdtls.unknown_scheme", "The preference names no scheme",
        expert.group.UNDECODED, expert.severity.NOTE),
}
dtls.experts = e

-- Whether a list of ports and ranges such as "5684,7000-7010" contains the port.
local function has_port(ports, port)
    for part in string.gmatch(ports, "[^,]+") do
        local low, high = string.match(part, "^%s*(%d+)%s*%-%s*(%d+)%s*$")
        low = low or string.match(part, "^%s*(%d+)%s*$")
        high = high or low
        if low and port >= tonumber(low) and port <= tonumber(high) then return true end
    end
    return false
end

-- What a scheme adds to each record: either the number of bytes of its aggregate, or the
-- information that its tags cannot be told from encrypted data, because content types and record
-- numbers are encrypted.
local function read_scheme(text)
    if text == "off" then return { plain = true } end
    local name, parameter, option = string.match(text, "^(%l[%w]*):(%d+)(%+?%l*)$")
    parameter = tonumber(parameter)
    if option == "+check" and (name == "agg" or name == "r2d2") then return { hidden = true } end
    if option ~= "" then return { hidden = true, unknown = true } end
    if name == "agg" and parameter >= 2 and parameter <= 16 then return { hidden = true } end
    local is_even = parameter == 50 or parameter == 100 or parameter == 150 or parameter == 200
    if (name == "r2d2" or name == "sliding") and is_even then
        return { aggregate = parameter / 50 + 2 }
    end
    return { hidden = true, unknown = true }
end

local function body(tvb, tree, at, len, epoch_bits, text)
    local scheme = read_scheme(text)
    if epoch_bits == HANDSHAKE then scheme, text = { plain = true }, "off" end
    local item = tree:add(f.scheme, text)
    item:set_generated()
    if scheme.unknown then item:add_proto_expert_info(e.scheme) end
    local tag = scheme.plain and dtls.prefs.tag or scheme.aggregate or 0
    -- A record has at least a content type beside its tag.
    if len < 1 + tag then
        if len > 0 then tree:add(f.sealed, tvb(at, len)) end
        return tree:add_proto_expert_info(e.malformed, "too short for its tag")
    end
    if scheme.hidden then
        local sealed = tree:add(f.sealed_and_tags, tvb(at, len))
        sealed:append_text(string.format(
            ": an own tag (%d) unless it is application data, an aggregate (%d) at the end of a set",
            FULL_TAG, FULL_TAG))
    elseif scheme.plain then
        tree:add(f.sealed, tvb(at, len - tag))
        if tag > 0 then tree:add(f.tag, tvb(at + len - tag, tag)) end
    else
        tree:add(f.sealed_and_tags, tvb(at, len - tag))
            :append_text(": an own tag (16) unless it is application data")
        tree:add(f.aggregate, tvb(at + len - tag, tag))
    end
end

-- The next two functions return the position of the next record, or nothing if it cannot be known.
local function unified_record(tvb, tree, at, to_server)
    local left = tvb:len() - at
    local first = tvb(at, 1)
    local flags = tree:add(f.flags, first)
    for _, field in ipairs({ f.has_id, f.long, f.has_length, f.epoch_bits }) do
        flags:add(field, first)
    end
    local function wrong(what)
        tree:add_proto_expert_info(e.malformed, what)
        return nil
    end
    local id = 0
    if first:bitfield(3, 1) == 1 then
        id = to_server and dtls.prefs.id_to_server or dtls.prefs.id_to_client
        if id == 0 then
            if left > 1 then tree:add(f.rest, tvb(at + 1)) end
            return wrong("a connection ID whose length no preference sets")
        end
    end
    local number = first:bitfield(4, 1) + 1
    local has_length = first:bitfield(5, 1) == 1
    local header = 1 + id + number + (has_length and 2 or 0)
    if left < header then return wrong("cut in its header") end
    if id > 0 then tree:add(f.id, tvb(at + 1, id)) end
    tree:add(f.masked, tvb(at + 1 + id, number))
    local len = left - header
    if has_length then
        local range = tvb(at + header - 2, 2)
        tree:add(f.length, range)
        if range:uint() > len then return wrong("longer than its datagram") end
        len = range:uint()
    end
    local text = to_server and dtls.prefs.to_server or dtls.prefs.to_client
    body(tvb, tree, at + header, len, first:bitfield(6, 2), text)
    return at + header + len
end

local function clear_record(tvb, tree, at)
    local left = tvb:len() - at
    if left < 13 then
        tree:add_proto_expert_info(e.malformed, "cut in its header")
        return nil
    end
    tree:add(f.type, tvb(at, 1))
    tree:add(f.version, tvb(at + 1, 2))
    tree:add(f.epoch, tvb(at + 3, 2))
    tree:add(f.number, tvb(at + 5, 6))
    tree:add(f.length, tvb(at + 11, 2))
    local len = tvb(at + 11, 2):uint()
    if len > left - 13 then
        tree:add_proto_expert_info(e.malformed, "longer than its datagram")
        return nil
    end
    if len > 0 then tree:add(f.clear, tvb(at + 13, len)) end
    return at + 13 + len
end

function dtls.dissector(tvb, pinfo, tree)
    if tvb:len() == 0 then return 0 end
    local to_server = has_port(dtls.prefs.ports, pinfo.dst_port)
    local at, clear, protected = 0, 0, 0
    pinfo.cols.protocol = "LSDTLS"
    while at and at < tvb:len() do
        local record = tree:add(dtls, tvb(at))
        local first = tvb(at, 1)
        local behind
        if first:bitfield(0, 3) == 1 then
            protected = protected + 1
            behind = unified_record(tvb, record, at, to_server)
        elseif CONTENT_TYPES[first:uint()] then
            clear = clear + 1
            behind = clear_record(tvb, record, at)
        else
            record:add(f.rest, tvb(at))
            record:add_proto_expert_info(e.malformed, "not a record of DTLS 1.3")
        end
        if behind then record:set_len(behind - at) end
        at = behind
    end
    pinfo.cols.info = string.format("to the %s: %d records in clear, %d under keys",
        to_server and "server" or "client", clear, protected)
    return tvb:len()
end

local followed = ""
function dtls.prefs_changed()
    local ports = DissectorTable.get("udp.port")
    if followed ~= "" then ports:remove(followed, dtls) end
    if dtls.prefs.ports ~= "" then ports:add(dtls.prefs.ports, dtls) end
    followed = dtls.prefs.ports
end
DissectorTable.get("udp.port"):add_for_decode_as(dtls)
