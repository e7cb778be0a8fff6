"""Every code that a person can meet, in Turkish. English is where the error is raised; a test compares the two.

`{names}` are the error's own words. A sentence that names a value which a code does not carry would fail its test.
"""

DETAIL = {
    "address_taken": "{address} adresi {cidr} içinde boş değil.",
    "bad_character": "Gövdede saklanamayan bir karakter var.",
    "bad_event_id": "Last-Event-ID bu akışın bir kimliği değil.",
    "bad_json": "Gövde geçerli JSON değil.",
    "bad_name": "Bir ad 1-63 karakterdir (a-z, 0-9 ve -); harf veya rakamla başlar ve biter.",
    "bad_page_size": "page_size 1 ile 1000 arasında bir sayıdır.",
    "bad_page_token": "page_token bizim verdiğimiz bir değer değil.",
    "bad_parameter": "Bir parametre geçersiz.",
    "body_too_large": "Gövde çok büyük; en fazla 1 MiB.",
    "bridge_missing": "Hiçbir düğümde {bridge} köprüsü yok; Proxmox'ta oluşturun.",
    "bridge_missing_on": "Şu düğümlerde {bridge} köprüsü yok: {nodes}.",
    "canary_hidden": "Kanarya VM görünmüyor.",
    "pass_gap": "Tarama eksik kaldı: {what}",
    "rights_changed": "Anahtarın hakları değişti; o zamandan beri başarılı bir öz sınama yok.",
    "child_wanting": "Parçası {name} sorunlu.",
    "children": "Parçaları bekleniyor: {names}.",
    "ha_asked": "HA yöneticisinden istendi, henüz yapmadı: {step}",
    "owned": "{name} başka bir kaynağın parçası; onunla birlikte değişir.",
    "clone_failed": "Klonlama başarısız oldu; başka bir VMID ile yeniden denenecek.",
    "clone_running": "Sanal makine oluşturuluyor.",
    "database_unreachable": "Veritabanı yanıt vermiyor.",
    "database_url": "Veritabanı adresi postgresql:// ile başlamalı.",
    "deleting": "{name} siliniyor.",
    "disk_shrinks": "Bir disk küçültülemez; en az aynı büyüklükte diski olan bir plan seçin.",
    "embedded_postgresql": "Gömülü PostgreSQL başlatılamadı.",
    "endless_plan": "Plan sonuna ulaşmıyor.",
    "etag_mismatch": "{name} bu arada değiştirildi; şimdi {version} sürümünde.",
    "events_too_old": "Bu kimlikten sonraki olaylar artık saklanmıyor; kaynakları yeniden yükleyin.",
    "fence_lost": "Başka bir çalıştırma devraldı.",
    "forbidden": "Bu anahtarın buna yetkisi yok.",
    "foreign_task": "Sanal makinede başka birinin görevi çalışıyor.",
    "idempotency_in_progress": "Bu Idempotency-Key ile yapılan ilk istek hâlâ yürütülüyor.",
    "idempotency_key_reused": "Bu Idempotency-Key başka bir istek için kullanıldı.",
    "identity_changed": "Sanal makine bir an önceki makine değil; hiçbir şey gönderilmedi.",
    "identity_mismatch": "{vmid} numaralı sanal makine zone9'un oluşturduğu makine değil; ona hiçbir şey yazılmadı.",
    "image_copy_missing": "Bölgede imajın kopyası yok.",
    "immutable": "{field} değiştirilemez.",
    "in_use": "{name} kullanımda: {users}.",
    "internal_error": "zone9'da bir hata var; günlüğü ayrıntısını söyler.",
    "invalid_spec": "İstenen değer geçersiz: {pointer}.",
    "job_ended": "İş zaten sona erdi.",
    "later": "Şimdilik olmuyor; yeniden denenecek.",
    "locked": "Sanal makine Proxmox'ta kilitli ({lock}).",
    "method_not_allowed": "Bu adres bu yöntemi bilmiyor.",
    "missing": "Gerekli bir değer eksik.",
    "name_taken": "{name} adında bir {kind} zaten var.",
    "needs_restart": "Yazıldı, ama çalışan makine hâlâ eski değerde: {fields}.",
    "network_full": "{cidr} içinde boş adres yok.",
    "never": "Bu, bekleyerek geçmez.",
    "no_node_online": "İmajın kopyasını tutan hiçbir düğüm çevrimiçi değil.",
    "not_a_template": "{vmid} numaralı sanal makine bir şablon değil; Proxmox'ta dönüştürün.",
    "not_found": "Böyle bir şey yok.",
    "other_project": "Bu anahtar başka bir proje için.",
    "other_region": "Seçilen kaynak başka bir bölgede.",
    "path_too_long": "Veri dizininin yolu çok uzun; ZONE9_DATA ile daha kısa bir yol seçin.",
    "postgresql_too_old": "PostgreSQL 15 veya daha yenisi gerekir.",
    "problem": "Bir sorun oluştu.",
    "project_needed": "Bir proje adı verin.",
    "project_not_found": "Böyle bir proje yok.",
    "protected": "{name} korumalı; önce korumayı kaldırın.",
    "quota_reached": "Projenin kotası {kind} türünden {most} adet.",
    "read_back_differs": "Proxmox {step} adımını yaptığını söyledi, ama geri okunan farklı ({diff}).",
    "reference_not_found": "{ref} adında bir {kind} yok.",
    "refused": "İstek geri çevrildi.",
    "region_gone": "Bölge artık yok.",
    "region_wanting": "Bölgede eksikler var: {what}",
    "region_warning": "Bölge uyarıyor: {what}",
    "resting": "Proxmox durdurmadan sonra hâlâ topluyor.",
    "repeated_parameter": "{parameter} sorgu parametresi iki kez verilmiş.",
    "restart_count": "restart_count her seferinde bir artar.",
    "sealing_key_damaged": "Mühür anahtarı dosyası bozuk.",
    "sealing_key_missing": "Saklanan bir sır, burada olmayan bir anahtarla mühürlenmiş.",
    "secret_damaged": "Saklanan bir sır açılamıyor.",
    "secret_gone": "Sır artık yok.",
    "server_off": "Sunucu kapalı; başlatın.",
    "stale_permit": "Yazmadan önceki bakış eskidi; hiçbir şey gönderilmedi.",
    "task_running": "Bir Proxmox görevi bekleniyor ({step}).",
    "template_not_seen": "Bölgede {vmid} numaralı sanal makine görünmüyor.",
    "token_ref": "token_ref zone9'undur; token_secret verin.",
    "unauthenticated": "Geçerli bir API anahtarı gerekir.",
    "unknown_action": "{kind} için {action} diye bir eylem yok.",
    "unknown_kind": "{kind} diye bir tür yok.",
    "unknown_parameter": "{parameter} diye bir sorgu parametresi yok.",
    "unknown_step": "Böyle bir adım yok.",
    "unreachable": "Yanıt veren yok.",
    "unsupported_media_type": "Gövde application/json olmalı.",
    "verify_writes_nothing": "Ölçen bir iş hiçbir şey yazmaz.",
    "vlan_taken": "Bu VLAN başka bir ağın.",
    "vm_changing": "Sanal makinenin yapılandırması okunurken değişiyor.",
    "vm_missing": "zone9'un oluşturduğu {vmid} numaralı sanal makine artık yok; sorulmadan yeniden oluşturulmaz.",
    "vmid_range_shrinks": "VMID aralığı yalnızca büyüyebilir.",
    "vmids_used_up": "Bölgenin VMID aralığı tükendi; genişletin.",
    "waiting_for_slot": "Boş yer bekleniyor: bir şablondan aynı anda yalnızca belirli sayıda klon alınır.",
    "pve_denied": "Proxmox anahtarında bunun için gereken bir yetki yok.",
    "pve_digest_mismatch": "Yapılandırma düzenlenirken değişti; yeniden okunuyor.",
    "pve_error": "Proxmox bir hata döndürdü.",
    "pve_exists": "Bu VM numarası kümede kullanılıyor.",
    "pve_hotplug_problem": "Proxmox değişikliğin bir kısmını yaptı; kalanı makine çalışırken yapılamadı.",
    "pve_lock_timeout": "Proxmox bu makineyle meşguldü; zone9 az sonra yeniden dener.",
    "pve_locked": "Proxmox bu makine üzerinde çalışıyor; zone9 bitmesini bekliyor.",
    "pve_no_quorum": "Proxmox kümesinde çoğunluk yok, bu yüzden değişiklik kabul etmiyor.",
    "pve_node_down": "Makinenin Proxmox düğümü yanıt vermiyor.",
    "pve_not_connected": "Proxmox'a ulaşılamadı.",
    "pve_not_found": "Sorulan düğümde bu makinenin yapılandırması yok.",
    "pve_rejected": "Proxmox isteği geçersiz sayıp geri çevirdi.",
    "pve_server_fault": "Proxmox bunu şu anda yapamadı.",
    "pve_shutdown_timeout": "Konuk işletim sistemi zamanında kapanmadı; çalışmaya devam ediyor.",
    "pve_task_failed": "Bir Proxmox görevi başarısız oldu.",
    "pve_unauthenticated": "Proxmox bu bölgenin anahtarını kabul etmiyor.",
    "pve_unknown_outcome": "Proxmox zamanında yanıt vermedi; zone9 gerçekte ne olduğuna bakıyor.",
}

TITLE = {
    400: "Geçersiz istek",
    401: "Kimlik doğrulanmadı",
    403: "Yetki yok",
    404: "Bulunamadı",
    405: "Yöntem bilinmiyor",
    409: "Çakışma",
    410: "Artık yok",
    412: "Bu arada değişti",
    413: "Çok büyük",
    415: "Desteklenmeyen içerik türü",
    422: "İşlenemeyen istek",
    500: "İç hata",
    503: "Şu anda kullanılamıyor",
}


# What pydantic says of a field, by its error type; `ctx` has the values.
FIELD = {
    "bool_parsing": "Doğru ya da yanlış (true, false) olmalı.",
    "bool_type": "Doğru ya da yanlış (true, false) olmalı.",
    "dict_type": "Bir JSON nesnesi olmalı.",
    "enum": "Şunlardan biri olmalı: {expected}.",
    "extra_forbidden": "Böyle bir alan yok.",
    "float_parsing": "Bir sayı olmalı.",
    "float_type": "Bir sayı olmalı.",
    "greater_than": "{gt} değerinden büyük olmalı.",
    "greater_than_equal": "En az {ge} olmalı.",
    "int_from_float": "Bir tam sayı olmalı.",
    "int_parsing": "Bir tam sayı olmalı.",
    "int_parsing_size": "Sayı çok büyük.",
    "int_type": "Bir tam sayı olmalı.",
    "json_invalid": "Gövde geçerli JSON değil.",
    "less_than": "{lt} değerinden küçük olmalı.",
    "less_than_equal": "En çok {le} olmalı.",
    "list_type": "Bir liste olmalı.",
    "literal_error": "Şunlardan biri olmalı: {expected}.",
    "missing": "Bu alan gerekli.",
    "model_attributes_type": "Bir JSON nesnesi olmalı.",
    "model_type": "Bir JSON nesnesi olmalı.",
    "string_pattern_mismatch": "Biçimi uymuyor.",
    "string_too_long": "En çok {max_length} karakter olmalı.",
    "string_too_short": "En az {min_length} karakter olmalı.",
    "string_type": "Metin olmalı.",
    "too_long": "En çok {max_length} öğe olabilir.",
    "too_short": "En az {min_length} öğe olmalı.",
    "value_error": "Değer geçersiz.",
}


class _Words(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "…"


def detail(code: str, words: dict[str, object], fallback: str) -> str:
    """Returns the Turkish sentence of a code; a code without one keeps its English sentence."""
    text = DETAIL.get(code)
    return fallback if text is None else text.format_map(_Words(words))


def field(kind: str, words: dict[str, object], fallback: str) -> str:
    """Returns the Turkish sentence about one field; what it needs but was not told is left out by a general one."""
    text = FIELD.get(kind)
    if text is None:
        return detail(kind, words, fallback)
    try:
        return text.format_map(words)
    except KeyError:
        return FIELD["value_error"]
