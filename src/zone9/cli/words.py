"""The command line's own sentences in Turkish; English stands in the code. The API's come in the asked language."""

import os

TURKISH = {
    "asked": "istenen",
    "applied": "uygulanan",
    "state": "durum",
    "name": "ad",
    "kind": "tür",
    "id": "kimlik",
    "status": "durum",
    "resource": "kaynak",
    "created": "oluşturuldu",
    "field": "alan",
    "read": "okunan",
    "who": "kim",
    "what": "ne",
    "noticed": "fark edildi",
    "ended": "bitti",
    "region": "bölge",
    "server": "sunucu",
    "project": "proje",
    "node": "düğüm",
    "pool": "havuz",
    "tag": "etiket",
    "origin": "köken",
    "guests": "makineler",
    "managed": "yönetilen",
    "running": "çalışan",
    "not seen": "görülmeyen",
    "at": "zaman",
    "version": "sürüm",
    "actor": "kim",
    "cause": "neden",
    "alarm": "uyarı",
    "times": "kez",
    "last": "son",
    "changed by {who}": "{who} değiştirdi",
    "changed by somebody": "biri değiştirdi",
    "nothing to do": "yapılacak bir şey yok",
    "nobody answers at {url}": "{url} yanıt vermiyor",
    "no address or token: set ZONE9_URL and ZONE9_TOKEN, or run `zone9 serve` first": (
        "adres veya anahtar yok: ZONE9_URL ve ZONE9_TOKEN verin, ya da önce `zone9 serve` çalıştırın"
    ),
    "is gone: its absence was read back": "yok: yokluğu geri okundu",
    "is no longer managed; its VM is left as it is": "artık yönetilmiyor; makinesi olduğu gibi bırakıldı",
    "waiting for: {needs}": "beklenen: {needs}",
    "delete {names}?": "{names} silinsin mi?",
    "is at version {version}, read back": "{version} sürümünde, geri okundu",
}


def language() -> str:
    """Returns `tr` or `en`, by ZONE9_LANG or the locale."""
    text = os.environ.get("ZONE9_LANG") or os.environ.get("LC_ALL") or os.environ.get("LANG") or ""
    return "tr" if text.lower().startswith("tr") else "en"


def say(sentence: str, **words: object) -> str:
    """Returns a sentence in the user's language."""
    text = TURKISH.get(sentence, sentence) if language() == "tr" else sentence
    return text.format(**words) if words else text
