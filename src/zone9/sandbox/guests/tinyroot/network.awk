# Reads a network-config of version 1 in the form in which Proxmox writes it, and prints a line for each subnet:
# name, MAC, kind, address, netmask, gateway; "-" where there is none.
function flush() {
  if (kind != "" && name != "") print name, mac, kind, address, netmask, gateway
  kind = ""; address = netmask = gateway = "-"
}
{ gsub(/'|"/, ""); key = $1; value = $2 }
key == "-" && $2 == "type:" { key = "type:"; value = $3 }
key == "type:" && value == "physical" { flush(); name = mac = "" }
key == "type:" && value == "nameserver" { flush(); name = "" }
key == "type:" && value ~ /^(static|static6|dhcp4|dhcp6|ipv6_slaac)$/ { flush(); kind = value }
key == "name:" { name = value }
key == "mac_address:" { mac = value }
key == "address:" && value != "" { address = value }
key == "netmask:" { netmask = value }
key == "gateway:" { gateway = value }
END { flush() }
