"""The cloud-init drive, against what a Proxmox VE 9.2 answered and by reading the ISO back."""

import io
import ipaddress
from pathlib import Path

import pytest
import yaml
from guest_kit import spec_of
from pycdlib import PyCdlib

from zone9.sandbox.guests import drive
from zone9.sandbox.guests.seam import CloudInit, Nic

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl t"

# GET nodes/pve1/qemu/101/cloudinit/dump?type=user|network|meta, recorded from qemu-server 9.2.6.
RECORDED_USER = f"""#cloud-config
hostname: web1
manage_etc_hosts: true
fqdn: web1.example.invalid
user: z9
password: hush
ssh_authorized_keys:
  - {KEY}
chpasswd:
  expire: False
users:
  - default
package_upgrade: true
"""
RECORDED_NETWORK = """version: 1
config:
    - type: physical
      name: eth0
      mac_address: 'bc:24:11:28:23:f4'
      subnets:
      - type: static
        address: '10.99.0.50'
        netmask: '255.255.255.0'
        gateway: '10.99.0.1'
    - type: nameserver
      address:
      - '10.99.0.1'
      search:
      - 'example.invalid'
"""
RECORDED_META = "instance-id: 0d8ebb8ff2f4c1e40f88e709d4e6e9dbffed2d4e\n"

RECORDED_SPEC = spec_of(
    101,
    name="web1",
    nics=(Nic(0, "BC:24:11:28:23:F4", "vmbr0"),),
    cloudinit=CloudInit(
        ciuser="z9",
        cipassword="hush",
        sshkeys=KEY.replace(" ", "%20"),
        nameserver="10.99.0.1",
        searchdomain="example.invalid",
        ipconfig=((0, "ip=10.99.0.50/24,gw=10.99.0.1"),),
    ),
)


def subnets(line: str) -> list[dict[str, str]]:
    text = drive.network_config((Nic(0, "BC:24:11:00:00:01", "vmbr0"),), CloudInit(ipconfig=((0, line),)))
    return yaml.safe_load(text)["config"][0]["subnets"]


def test_the_texts_are_what_proxmox_answered() -> None:
    files = drive.texts(RECORDED_SPEC)
    assert files.user_data == RECORDED_USER
    assert files.network_config == RECORDED_NETWORK
    assert files.meta_data == RECORDED_META


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("ip=dhcp", [{"type": "dhcp4"}]),
        (" ", [{"type": "dhcp4"}, {"type": "dhcp6"}]),
        ("ip6=auto", [{"type": "ipv6_slaac"}]),
        ("ip=10.0.0.5/30", [{"type": "static", "address": "10.0.0.5", "netmask": "255.255.255.252"}]),
        ("ip6=fd00::5/64,gw6=fd00::1", [{"type": "static6", "address": "fd00::5/64", "gateway": "fd00::1"}]),
    ],
)
def test_each_form_of_ipconfig(line: str, wanted: list[dict[str, str]]) -> None:
    assert subnets(line) == wanted


def test_a_nic_without_ipconfig_is_not_on_the_drive() -> None:
    nics = (Nic(0, "BC:24:11:00:00:01", "vmbr0"), Nic(1, "BC:24:11:00:00:02", "vmbr0"))
    text = drive.network_config(nics, CloudInit(ipconfig=((1, "ip=dhcp"),)))
    assert [part["name"] for part in yaml.safe_load(text)["config"]] == ["eth1"]


def test_root_needs_no_other_user_and_a_dotted_name_is_its_own_domain() -> None:
    text = drive.user_data(
        "db.example.invalid", CloudInit(ciuser="root", ciupgrade=False, searchdomain="other")
    )
    said = yaml.safe_load(text)
    assert said["hostname"] == "db"
    assert said["fqdn"] == "db.example.invalid"
    assert said["disable_root"] is False
    assert "users" not in said
    assert "package_upgrade" not in said


def test_the_drive_reads_back_in_both_namings(tmp_path: Path) -> None:
    files = drive.texts(RECORDED_SPEC)
    path = tmp_path / "cidata.iso"
    drive.write(path, files)
    assert path.stat().st_size == 4 * 2**20
    assert path.stat().st_mode & 0o777 == 0o600
    iso = PyCdlib()
    iso.open(str(path))
    try:
        assert iso.pvd.volume_identifier.rstrip() == b"cidata"
        for naming in ("rr_path", "joliet_path"):
            for name, content in (
                ("/user-data", files.user_data),
                ("/meta-data", files.meta_data),
                ("/network-config", files.network_config),
                ("/vendor-data", ""),
            ):
                read = io.BytesIO()
                iso.get_file_from_iso_fp(read, **{naming: name})
                assert read.getvalue().decode() == content
    finally:
        iso.close()


def test_texts_that_are_too_long_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="too big"):
        drive.write(tmp_path / "cidata.iso", drive.Texts("x" * (3 * 2**20 + 1), "", ""))


def test_the_first_address_is_the_first_static_one() -> None:
    nics = tuple(Nic(n, f"BC:24:11:00:00:0{n}", "vmbr0") for n in (1, 2, 3))
    given = ((1, "ip=dhcp"), (2, "gw=10.0.0.1,ip=10.0.0.7/24"), (3, "ip=10.0.1.7/24"))
    found = drive.first_address(spec_of(1, nics=nics, cloudinit=CloudInit(ipconfig=given)))
    assert found == (nics[1], ipaddress.IPv4Address("10.0.0.7"))
    assert drive.first_address(spec_of(1)) is None
